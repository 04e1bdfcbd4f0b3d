import { type Pause, pause as systemPause } from "../foundation/pause.ts";

/** Work that is done again and again, never twice at once. */
export interface Recurrence {
  /** Resolves once what is under way has ended; nothing begins any more. */
  readonly end: () => Promise<void>;
}

/**
 * Does the work now and then again and again, so many seconds after it was done, or as many as it says
 * itself. What it throws goes to `failed`, and does not keep the next time from coming.
 */
export function recur(
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
}
