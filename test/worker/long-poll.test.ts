import { test } from "vitest";
import { requireFairPlaces } from "../contract/bounds/fair-places.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { stageWorker } from "./runtime/staged-worker.ts";

recordConsoleLines();

test("one address, as the edge names it, does not take all places of long polls", async () => {
  const worker = stageWorker({}, { clock: () => new Date() });
  await worker.cron();
  await requireFairPlaces((address, headers) =>
    worker.get("/bundle.json", { headers: { "cf-connecting-ip": address, ...headers } }),
  );
});
