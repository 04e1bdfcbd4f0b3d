import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import type { LeaseCandidate } from "../../foundation/lease.ts";
import type { Pause } from "../../foundation/pause.ts";
import { recur } from "../../program/recurrence.ts";

/** Work that the leader does until the signal aborts. */
type LeaderWork = (signal: AbortSignal) => { readonly ended: Promise<void> };

/** client-go's defaults; a lease is held for 15 seconds. */
const retrySeconds = 2;
const renewalSeconds = 10;

/** The means of an election. */
interface Election {
  readonly candidate: LeaseCandidate;
  readonly work: LeaderWork;
  readonly log: OperationLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
}

/**
 * Works while this process holds the lease. A holder that cannot renew it stops before another process may
 * begin.
 *
 * Two leaders at once are no danger: an answer is final, so the API server takes one of two.
 */
export function runElection({ candidate, work, log, clock, pause }: Election) {
  let running: { readonly ending: AbortController; readonly ended: Promise<void> } | undefined;
  let renewedAt = new Date(0);

  function begin(): void {
    log.operation({ event: "leading", level: "info", detail: "this process answers requests now" });
    const ending = new AbortController();
    running = { ending, ended: work(ending.signal).ended };
  }

  async function stop(): Promise<void> {
    const stopped = running;
    running = undefined;
    stopped?.ending.abort();
    await stopped?.ended;
  }

  async function lose(detail: string): Promise<void> {
    if (!running) return;
    log.operation({ event: "not-leading", level: "warning", detail });
    await stop();
  }

  async function campaign(): Promise<void> {
    const now = clock();
    const isHolder = await candidate.acquire(clock).catch((error: unknown) => {
      const detail = `the API server ${messageOf(error)}`;
      log.operation({ event: "lease-not-renewed", level: "warning", detail });
      return undefined;
    });
    if (isHolder) {
      renewedAt = now;
      if (!running) begin();
    } else if (isHolder === false) await lose("another process holds the lease");
    else if (clock().getTime() - renewedAt.getTime() >= 1000 * renewalSeconds) {
      await lose("the lease could not be renewed in time");
    }
  }

  const fault = (error: unknown): void =>
    log.operation({ event: "fault", level: "error", detail: messageOf(error) });
  const campaigning = recur(campaign, retrySeconds, fault, pause);
  return {
    isLeading: () => running !== undefined,
    /** Ends the work, and lets another process begin at once. */
    end: async (): Promise<void> => {
      await campaigning.end();
      const wasLeading = running !== undefined;
      await stop();
      // Without a release, the next process waits for the end of the lease.
      if (wasLeading) await candidate.release(clock()).catch(() => {});
    },
  };
}

export type Leadership = Readonly<ReturnType<typeof runElection>>;
