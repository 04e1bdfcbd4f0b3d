import { type Pause, pause as systemPause } from "../foundation/pause.ts";

/** Work that repeats, one run after the other. */
export interface Recurrence {
  /** Starts no further run, and resolves when the current one has ended. */
  readonly end: () => Promise<void>;
}

/** Starts work that recurs. */
export const Recurrence = {
  /**
   * Runs the work at once, and again `seconds` after each run has ended, or after as many seconds as the run returns.
   * An error goes to `failed` and does not end the repetition.
   */
  start(
    work: () => Promise<number | undefined> | Promise<void>,
    seconds: number,
    failed: (error: unknown) => void,
    pause: Pause = systemPause,
  ): Recurrence {
    const ending = new AbortController();

    async function workOnce(): Promise<number | undefined> {
      try {
        return (await work()) ?? undefined;
      } catch (error) {
        failed(error);
        return undefined;
      }
    }

    async function run(): Promise<void> {
      while (!ending.signal.aborted) {
        const next = await workOnce();
        await pause(1000 * (next ?? seconds), ending.signal);
      }
    }

    const running = run();
    return {
      end: () => {
        ending.abort();
        return running;
      },
    };
  },
};
