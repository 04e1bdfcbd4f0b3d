import { createWorker, type Worker } from "./worker.ts";

const worker: Worker = createWorker(() => new Date());

export default worker;
