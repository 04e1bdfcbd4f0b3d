import type { Worker } from "../../../src/worker/handlers.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

export { TestedLogShard } from "./tested-log-shard.ts";

/** The Worker as its main module makes it, but for time: on a slow machine an issuer may be slow. */
const worker: Worker = createWorker({
  clock: () => new Date(),
  fetchTimeoutMilliseconds: hangMilliseconds,
});

export default worker;
