import { pause } from "../foundation/pause.ts";
import { type WorkSharing, waitIn } from "../foundation/shared-work.ts";

/** Shares work by a promise: no request polls, and all of them wake as soon as the work ends. */
export const sharePromises: WorkSharing = (room, longestMilliseconds) => {
  let underWay: Promise<void> | undefined;

  async function begin(work: () => Promise<void>): Promise<void> {
    const { promise: mine, resolve } = Promise.withResolvers<void>();
    const ended = new AbortController();
    // This runs before the request that did the work continues, because that may join again at once.
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
      if (current) await waitIn(room, () => current);
      else if (work) await begin(work);
    },
  };
};

/** The longest wait of a request for work that it could do without. */
const briefMilliseconds = 500;

/** Waits until the work has ended, or for a moment: the work goes on. */
export async function waitBriefly(work: Promise<void>): Promise<void> {
  const waited = new AbortController();
  try {
    await Promise.race([work, pause(briefMilliseconds, waited.signal)]);
  } finally {
    waited.abort();
  }
}
