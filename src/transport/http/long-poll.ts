import { addressOf, networkOf } from "../../foundation/addresses.ts";
import type { Peer } from "../rpc/rpc.ts";

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
  /** Calls `hasChanged` until it finds a change, the wait is over, or the caller hangs up. */
  readonly hold: (hasChanged: () => Promise<boolean>, caller: AbortSignal) => Promise<void>;
  readonly leave: () => void;
}

/** The long polls under way, whose number is bounded. */
export interface LongPolls {
  /**
   * `undefined` for a caller that does not ask to wait, beyond the greatest number, where connections run short, and
   * once the server ends.
   * One address has a part of the places only.
   */
  readonly enter: (
    wishSeconds: number | undefined,
    now: Date,
    request: Request,
  ) => LongPoll | undefined;
}

/** The caller of a request that may wait, as far as the platform knows it. `passTurn` is called when the wait begins. */
export type Waiter = Omit<Peer, "clientCertificate">;

type WaiterOf = (request: Request) => Waiter;

/** A caller as the platform knows it. */
export function waiting({ address, passTurn, mayWait }: Peer): Waiter {
  return { address: address === undefined ? undefined : addressOf(address), passTurn, mayWait };
}

/** A long poll holds a connection, and an isolate of a Worker has 128 MB for everything. */
const maximumLongPolls = 2000;

/** The nodes of a cluster may share one address. */
const maximumOfAddress = 500;

/** A long poll that has not left so long after its wait belongs to a request that the platform dropped. */
const forgottenSeconds = 10;

/** A network has no more places than are left for all others. */
const networkKey = (address: string): string => `network ${networkOf(address)}`;

/** The place of a long poll, and when it counts as forgotten. */
interface Place {
  readonly address: string | undefined;
  readonly end: number;
}

/**
 * It is one function because to enter, to leave and to count share two maps, which nothing else may change.
 *
 * @param limits Read for each caller: a running CA may get others.
 * @param ending Aborted when the server ends, and with it every wait.
 */
export function createLongPolls(
  limits: () => LongPollLimits,
  waiterOf: WaiterOf,
  ending?: AbortSignal,
): LongPolls {
  const underWay = new Map<LongPoll, Place>();
  const placesOf = new Map<string, number>();

  function count(address: string | undefined, change: 1 | -1): void {
    for (const holder of address === undefined ? [] : [address, networkKey(address)]) {
      const places = (placesOf.get(holder) ?? 0) + change;
      if (places > 0) placesOf.set(holder, places);
      else placesOf.delete(holder);
    }
  }

  function leave(longPoll: LongPoll): void {
    const place = underWay.get(longPoll);
    if (place && underWay.delete(longPoll)) count(place.address, -1);
  }

  function hasRoom(address: string | undefined): boolean {
    const left = maximumLongPolls - underWay.size;
    if (address === undefined) return left > 0;
    const [ofAddress = 0, ofNetwork = 0] = [address, networkKey(address)].map((holder) =>
      placesOf.get(holder),
    );
    return ofNetwork < left && ofAddress < maximumOfAddress;
  }

  function makesRoom(address: string | undefined, now: Date): boolean {
    if (hasRoom(address)) return true;
    for (const [longPoll, { end }] of underWay) if (end < now.getTime()) leave(longPoll);
    return hasRoom(address);
  }

  return {
    enter: (wishSeconds = 0, now, request) => {
      const { address, passTurn, mayWait } = waiterOf(request);
      const { longestSeconds, readSeconds } = limits();
      const seconds = Math.min(wishSeconds, longestSeconds);
      if (seconds < 1 || ending?.aborted || mayWait?.() === false) return undefined;
      if (!makesRoom(address, now)) return undefined;
      const longPoll: LongPoll = {
        seconds,
        hold: (hasChanged, caller) => {
          passTurn?.();
          const endings = ending ? [caller, ending] : [caller];
          return pollUntil(hasChanged, { seconds, readSeconds, endings });
        },
        leave: () => leave(longPoll),
      };
      underWay.set(longPoll, { address, end: now.getTime() + 1000 * (seconds + forgottenSeconds) });
      count(address, 1);
      return longPoll;
    },
  };
}

interface Wait {
  readonly seconds: number;
  readonly readSeconds: number;
  /** Each of these signals ends the wait. */
  readonly endings: readonly AbortSignal[];
}

async function pollUntil(hasChanged: () => Promise<boolean>, wait: Wait): Promise<void> {
  const { seconds, readSeconds, endings } = wait;
  let left = endings.some(({ aborted }) => aborted) ? 0 : seconds;
  let wake = (): void => {};
  const end = (): void => {
    left = 0;
    wake();
  };
  for (const ending of endings) ending.addEventListener("abort", end);
  try {
    while (left > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 1000 * Math.min(left, readSeconds));
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      left -= readSeconds;
      if (await hasChanged()) return;
    }
  } finally {
    for (const ending of endings) ending.removeEventListener("abort", end);
  }
}
