import { createWorker, type Worker } from "./worker.ts";

const worker: Worker = createWorker({ clock: () => new Date() });

export default worker;
