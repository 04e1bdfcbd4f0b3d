import type { Worker } from "./variables.ts";
import { createWorker } from "./worker.ts";

const worker: Worker = createWorker({ clock: () => new Date() });

export default worker;
