import { pause } from "../../src/foundation/work/pause.ts";

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
