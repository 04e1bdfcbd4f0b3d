import { type Pause, pause, waitFor } from "../../foundation/pause.ts";
import { WorkSharing } from "../../foundation/shared-work.ts";

/** Shares work by a promise: no request polls, and all of them wake as soon as the work ends. */
export const sharePromises: WorkSharing = (capacity, longestMilliseconds) => {
  let underWay: Promise<void> | undefined;

  async function begin(work: () => Promise<void>): Promise<void> {
    const { promise: mine, resolve } = Promise.withResolvers<void>();
    const ended = new AbortController();
    // Runs before the caller that did the work continues, because it may join again at once.
    const end = (): void => {
      if (underWay === mine) underWay = undefined;
      resolve();
    };
    underWay = mine;
    void pause(longestMilliseconds, ended.signal).then(end);
    try {
      await work();
    } finally {
      ended.abort();
      end();
    }
  }

  return {
    join: async (work) => {
      const current = underWay;
      if (current) await WorkSharing.waitIn(capacity, () => current);
      else if (work) await begin(work);
    },
  };
};

/** The longest wait for work that a request can do without: half a second, in parts. */
const parts = { count: 20, milliseconds: 25 };

/**
 * Waits for work, about half a second at most; the work goes on afterwards. It rejects if the work rejects meanwhile.
 *
 * Timers of a busy process fire late. So the wait is a fixed number of short timers, between which the work has its
 * ticks of the event loop. A busy process alone is then no reason to give up the work.
 */
export async function waitBriefly(work: Promise<void>, wait: Pause = pause): Promise<void> {
  const inParts: Pause = async (milliseconds, signal) => {
    for (let i = 0; i < parts.count && !signal?.aborted; i++)
      await wait(milliseconds / parts.count, signal);
  };
  await waitFor(work, parts.count * parts.milliseconds, inParts);
}
