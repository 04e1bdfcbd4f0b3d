import { Hono } from "hono";

/** Whether a program can do its work now. It may give reasons even when it can. */
export interface Readiness {
  readonly ready: boolean;
  readonly reasons: readonly string[];
}

/** An app that answers the probes of an orchestrator: alive at `/healthz`, 200 or 503 at `/readyz`. */
export function createProbedApp(readiness: () => Readiness | Promise<Readiness>): Hono {
  const app = new Hono();
  app.get("/healthz", (c) => c.text("ok\n"));
  app.get("/readyz", async (c) => {
    const now = await readiness();
    return c.json(now, now.ready ? 200 : 503, { "cache-control": "no-store" });
  });
  app.notFound((c) => c.text("not found\n", 404));
  return app;
}
