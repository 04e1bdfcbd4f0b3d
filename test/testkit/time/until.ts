import { setTimeout as sleep } from "node:timers/promises";
import { pause } from "../../../src/foundation/pause.ts";

/** Looks again and again until it is so. @throws Error after this many seconds. */
export async function until(
  what: string,
  isSo: () => Promise<boolean> | boolean,
  seconds = 60,
): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${seconds} s`);
    await sleep(100);
  }
}

/** Whether some work succeeds. */
export const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

/** Work that is done again and again. */
export interface Repetition {
  /** Resolves when the last run is over, so that nothing of it meets a program that has ended. */
  readonly end: () => Promise<void>;
}

/** Repeats work with a pause between two runs. A run that fails is told of, and the next one comes all the same. */
export function repeatedly(work: () => Promise<unknown>, milliseconds: number): Repetition {
  const ending = new AbortController();
  const running = run(work, milliseconds, ending.signal);
  return {
    end: async () => {
      ending.abort();
      await running;
    },
  };
}

async function run(
  work: () => Promise<unknown>,
  milliseconds: number,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await work().catch((error: unknown) => console.error("a repeated run failed:", error));
    await pause(milliseconds, signal);
  }
}
