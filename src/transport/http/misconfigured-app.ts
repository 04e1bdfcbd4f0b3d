import type { Hono } from "hono";
import { createProbedApp } from "./probed-app.ts";

/**
 * The app in place of a CA whose configuration is invalid. `/readyz` names the faulty keys. Every RPC gets
 * 503, because the same request succeeds once the operator has mended them.
 */
export function createMisconfiguredApp(faults: readonly string[]): Hono {
  const reasons = faults.map((fault) => `configuration: ${fault}`);
  const app = createProbedApp(() => ({ ready: false, reasons }));
  app.all("*", (c) =>
    c.json({ code: "unavailable", message: "certificate authority is not configured" }, 503),
  );
  return app;
}
