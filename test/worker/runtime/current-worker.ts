import type { Worker } from "../../../src/worker/variables.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

/** The Worker as its main module makes it, but for time: on a slow machine an issuer may be slow. */
const createPatientWorker = (): Worker =>
  createWorker({ clock: () => new Date(), fetchTimeoutMilliseconds: hangMilliseconds });

let current = createPatientWorker();

export const currentWorker = (): Worker => current;

/** Replaces the Worker by one that has seen no event yet, as in a new isolate. */
export function renewWorker(): void {
  current = createPatientWorker();
}
