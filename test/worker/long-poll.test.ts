import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { test } from "vitest";
import { createWorker } from "../../src/worker/worker.ts";
import { requireFairPlaces } from "../contract/bounds/fair-places.ts";
import { origin } from "../contract/service-under-test.ts";

test("one address, as the edge names it, does not take all places of long polls", async () => {
  const worker = createWorker({ clock: () => new Date() });
  const environment = { ...env };
  await worker.scheduled(createScheduledController(), environment);
  await requireFairPlaces((address, headers) => {
    const request = new Request(`${origin}/bundle.json`, {
      headers: { "cf-connecting-ip": address, ...headers },
    });
    return worker.fetch(request, environment);
  });
});
