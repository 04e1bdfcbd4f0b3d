import { TrieRouter } from "hono/router/trie-router";
import { Hono } from "hono/tiny";
import type { Readiness } from "../../foundation/events.ts";
import { pathOf } from "./paths.ts";

/**
 * An app that answers the probes of an orchestrator: alive at `/healthz`, 200 or 503 at `/readyz`, and 500 if
 * `readiness` fails.
 */
export function createProbedApp(readiness: () => Readiness | Promise<Readiness>): Hono {
  const app = new Hono({ getPath: pathOf });
  // Hono's default router compiles the routes on the first request, and is a third of what hono adds to the Worker.
  app.router = new TrieRouter();
  app.get("/healthz", (c) => c.text("ok\n"));
  app.get("/readyz", async (c) => {
    const now = await readiness();
    return c.json(now, now.ready ? 200 : 503, { "cache-control": "no-store" });
  });
  app.notFound((c) => c.text("not found\n", 404));
  return app;
}
