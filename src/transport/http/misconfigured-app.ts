import { Hono } from "hono";

/**
 * What answers in place of a CA whose configuration is wrong: nothing is served, and `/readyz` says
 * which keys are at fault. Clients are told to come back, because the fault is not theirs.
 */
export function createMisconfiguredApp(faults: readonly string[]): Hono {
  const app = new Hono();
  app.get("/healthz", (c) => c.text("ok\n"));
  app.get("/readyz", (c) =>
    c.json({ ready: false, reasons: faults.map((fault) => `configuration: ${fault}`) }, 503, {
      "cache-control": "no-store",
    }),
  );
  app.all("*", (c) =>
    c.json({ code: "unavailable", message: "certificate authority is not configured" }, 503),
  );
  return app;
}
