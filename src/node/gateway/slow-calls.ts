import { CallerAddress } from "../../foundation/shares.ts";
import { RankedShares } from "../limits/ranked-shares.ts";
import { Turn } from "../limits/turn.ts";
import { UpstreamFault } from "./upstream.ts";

interface SlowCall {
  readonly address: string;
  readonly end: () => void;
}

/** How long a call keeps its turn: far longer than the CA usually needs. */
const usualTurnMilliseconds = 1_000;

/** The most calls that wait without a turn: connections to the CA are left for so many. */
const usualMaximum = 96;

/**
 * Calls that the CA answers slowly, such as those of an issuer that does not answer, wait here without a turn. Beyond
 * `maximum`, one is ended: in the network with the most such calls, at its address with the most, the oldest.
 */
export class SlowCalls {
  readonly #turnMilliseconds: number;
  readonly #maximum: number;
  readonly #shares = new RankedShares<SlowCall, "calls">({ calls: 0 });

  constructor(turnMilliseconds: number = usualTurnMilliseconds, maximum: number = usualMaximum) {
    this.#turnMilliseconds = turnMilliseconds;
    this.#maximum = maximum;
  }

  /**
   * Waits for the CA's answer.
   * @param answer Gets a signal that aborts with the call's own, or if the call is ended for another.
   * @throws UpstreamFault for a call that is ended for another.
   */
  async wait<Answer>(
    peer: string | undefined,
    signal: AbortSignal,
    answer: (ending: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    const ending = new AbortController();
    // `AbortSignal.any` keeps both signals in lists of weak references, which costs far more.
    const gone = (): void => ending.abort(signal.reason);
    if (signal.aborted) gone();
    signal.addEventListener("abort", gone);
    const fault = (): Error => new UpstreamFault("the CA is slow, and too many wait for it");
    const call = { address: CallerAddress.of(peer), end: () => ending.abort(fault()) };
    try {
      const passed = (): void => this.#take(call);
      return await Turn.aside(() => answer(ending.signal), {
        after: this.#turnMilliseconds,
        passed,
      });
    } finally {
      this.#shares.remove(call, "calls");
    }
  }

  #take(call: SlowCall): void {
    this.#shares.add(call, "calls");
    if (this.#shares.inAll("calls") <= this.#maximum) return;
    const oldest = this.#shares.oldestOfLargest("calls");
    if (!oldest) return;
    this.#shares.remove(oldest, "calls");
    oldest.end();
  }
}
