import { Hono } from "hono";

/** Whether a program can do its work now. It may give reasons even when it can. */
export interface Readiness {
  readonly ready: boolean;
  readonly reasons: readonly string[];
}

/** An app that answers the probes of an orchestrator: alive at `/healthz`, 200 or 503 at `/readyz`. */
export function createProbedApp(readiness: () => Readiness | Promise<Readiness>): Hono {
  const app = new Hono({ getPath: pathOf });
  app.get("/healthz", (c) => c.text("ok\n"));
  app.get("/readyz", async (c) => {
    const now = await readiness();
    return c.json(now, now.ready ? 200 : 503, { "cache-control": "no-store" });
  });
  app.notFound((c) => c.text("not found\n", 404));
  return app;
}

/**
 * The path of a request as it is written. Every path has one spelling: a rule of an edge or a proxy for a path
 * would not see another one, such as `/%62undle.pem`.
 */
export function pathOf({ url }: Pick<Request, "url">): string {
  const [path = ""] = url.slice(url.indexOf("/", url.indexOf("//") + 2)).split(/[?#]/, 1);
  return path;
}
