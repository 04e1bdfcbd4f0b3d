import { createConsole } from "./console.ts";
import type { Worker } from "./variables.ts";
import { createWorker } from "./worker.ts";

const worker: Worker = createWorker({ clock: () => new Date(), addConsole: createConsole() });

export default worker;
