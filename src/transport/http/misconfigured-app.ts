import { Hono } from "hono";

/**
 * The app in place of a CA whose configuration is invalid. `/readyz` names the faulty keys. Every RPC gets
 * 503, because the same request succeeds once the operator has mended them.
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
