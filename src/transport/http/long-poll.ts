import { CallerAddress, Shares } from "../../foundation/shares.ts";
import type { PeerOf } from "../rpc/rpc.ts";

/** The limits of long polls for a changed trust bundle. */
export interface LongPollLimits {
  /** The longest wait; 0 switches long polls off. */
  readonly longestSeconds: number;
  /** The time between two reads of the bundle. */
  readonly readSeconds: number;
}

/** A caller that waits for a changed trust bundle. */
export interface LongPoll {
  /** The longest that this caller waits. */
  readonly seconds: number;
  /**
   * Calls `hasChanged`, first after `readSeconds`, until it finds a change, the wait is over, or the caller hangs up.
   * Rejects as `hasChanged` does.
   */
  readonly hold: (hasChanged: () => Promise<boolean>, caller: AbortSignal) => Promise<void>;
  /** Must be called at the end, so that the limits no longer count this caller. */
  readonly leave: () => void;
}

/** A long poll holds a connection, and an isolate of a Worker has 128 MB for everything. */
const maximumLongPolls = 2000;

/** The most long polls of one address, which the nodes of a cluster may share. */
const maximumOfAddress = 500;

/** A long poll that is still counted this long after its wait belongs to a request that the platform has dropped. */
const forgottenSeconds = 10;

interface CountedLongPoll extends LongPoll {
  readonly address: string;
  /** When the platform is taken to have dropped its request. */
  readonly end: number;
}

/** The long polls under way, whose number is bounded. */
export class LongPolls {
  readonly #limits: () => LongPollLimits;
  readonly #peerOf: PeerOf;
  readonly #ending: AbortSignal | undefined;
  readonly #shares = new Shares<CountedLongPoll, "underWay">({ underWay: 0 });

  /**
   * @param limits Read for each caller: a running CA may get others.
   * @param ending Aborted when the server ends, and with it every wait.
   */
  constructor(limits: () => LongPollLimits, peerOf: PeerOf, ending?: AbortSignal) {
    this.#limits = limits;
    this.#peerOf = peerOf;
    this.#ending = ending;
  }

  /**
   * Admits a long poll. The caller must call `leave` at its end.
   *
   * @returns `undefined` if the caller does not ask to wait, if the limit of all long polls, of its network or of its
   *   address is reached, while connections are scarce, and once the server ends.
   */
  enter(wishSeconds = 0, now: Date, request: Request): LongPoll | undefined {
    const ending = this.#ending;
    const peer = this.#peerOf(request);
    const { longestSeconds, readSeconds } = this.#limits();
    const seconds = Math.min(wishSeconds, longestSeconds);
    if (seconds < 1 || ending?.aborted || peer.mayWait?.() === false) return undefined;
    const address = peer.address === undefined ? undefined : CallerAddress.of(peer.address);
    if (!this.#makesRoom(address, now)) return undefined;
    const longPoll: CountedLongPoll = {
      address: address ?? "",
      end: now.getTime() + 1000 * (seconds + forgottenSeconds),
      seconds,
      hold: (hasChanged, caller) => {
        peer.yieldTurn?.();
        const endings = ending ? [caller, ending] : [caller];
        return pollUntil(hasChanged, seconds, readSeconds, endings);
      },
      leave: () => this.#shares.remove(longPoll, "underWay"),
    };
    this.#shares.add(longPoll, "underWay");
    return longPoll;
  }

  #makesRoom(address: string | undefined, now: Date): boolean {
    if (this.#hasRoom(address)) return true;
    for (const { members } of this.#shares.all())
      for (const each of members) if (each.end < now.getTime()) each.leave();
    return this.#hasRoom(address);
  }

  #hasRoom(address: string | undefined): boolean {
    if (address === undefined) return this.#shares.inAll("underWay") < maximumLongPolls;
    return (
      this.#shares.leavesAsMuch(address, "underWay", maximumLongPolls) &&
      this.#shares.of(address).amounts.underWay < maximumOfAddress
    );
  }
}

/** @param endings Signals each of which ends the wait. */
async function pollUntil(
  hasChanged: () => Promise<boolean>,
  seconds: number,
  readSeconds: number,
  endings: readonly AbortSignal[],
): Promise<void> {
  let left = endings.some(({ aborted }) => aborted) ? 0 : seconds;
  let wake = (): void => {};
  const end = (): void => {
    left = 0;
    wake();
  };
  for (const ending of endings) ending.addEventListener("abort", end);
  try {
    while (left > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      const timer = setTimeout(wake, 1000 * Math.min(left, readSeconds));
      await promise;
      clearTimeout(timer);
      left -= readSeconds;
      if (await hasChanged()) return;
    }
  } finally {
    for (const ending of endings) ending.removeEventListener("abort", end);
  }
}
