import { LogSearch } from "../status/log-search.ts";
import { createConsole } from "./console.ts";
import { openWorkerLog } from "./log/worker-log.ts";
import type { Worker } from "./variables.ts";
import { createWorker } from "./worker.ts";

// The platform finds the class of the Durable Objects among the exports of the main module.
export { IssuanceLogShard } from "./log/log-shard.ts";

const worker: Worker = createWorker({
  clock: () => new Date(),
  openLog: openWorkerLog,
  addConsole: createConsole(LogSearch.in),
});

export default worker;
