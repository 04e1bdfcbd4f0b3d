import type { Worker } from "../../../src/worker/variables.ts";
import { currentWorker } from "./current-worker.ts";

export { TestedLogShard } from "./tested-log-shard.ts";

const worker: Worker = {
  fetch: (request, environment) => currentWorker().fetch(request, environment),
  scheduled: (event, environment) => currentWorker().scheduled(event, environment),
};

export default worker;
