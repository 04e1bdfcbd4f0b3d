import type { Worker } from "./bindings.ts";
import { addConsole } from "./console.ts";
import { createWorker } from "./worker.ts";

const worker: Worker = createWorker({ clock: () => new Date(), addConsole });

export default worker;
