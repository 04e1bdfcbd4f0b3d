import { addConsole } from "./console.ts";
import type { Worker } from "./variables.ts";
import { createWorker } from "./worker.ts";

const worker: Worker = createWorker({ clock: () => new Date(), addConsole });

export default worker;
