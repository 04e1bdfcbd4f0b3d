import { addressOf } from "../../foundation/addresses.ts";
import { Shares } from "../limits/shares.ts";
import { Turn } from "../limits/turn.ts";
import { UpstreamFault } from "./upstream.ts";

/** A call for which the CA takes long. */
interface SlowCall {
  readonly address: string;
  readonly end: () => void;
}

/** Milliseconds, far more than the CA needs: by turns, few calls have to share the connections to it. */
const usualPatience = 1_000;

/** Connections to the CA are left for these beside those of calls with a turn. */
const usualMaximum = 96;

/**
 * The calls for which the CA waits itself, such as for an issuer that never answers. They pass their turns on,
 * within a bound: beyond it the oldest of the address with most ends, in the network with most.
 */
export class SlowCalls {
  readonly #patience: number;
  readonly #maximum: number;
  readonly #shares = new Shares<SlowCall, "calls">({ calls: 0 });

  constructor(patienceMilliseconds: number = usualPatience, maximum: number = usualMaximum) {
    this.#patience = patienceMilliseconds;
    this.#maximum = maximum;
  }

  /** @throws UpstreamFault for a call that has to end for another. */
  async wait<Answer>(
    peer: string | undefined,
    answer: (ending: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    const ending = new AbortController();
    const fault = (): Error => new UpstreamFault("the CA is slow, and too many wait for it");
    const call = { address: addressOf(peer), end: () => ending.abort(fault()) };
    try {
      const passed = (): void => this.#take(call);
      return await Turn.aside(() => answer(ending.signal), { after: this.#patience, passed });
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
