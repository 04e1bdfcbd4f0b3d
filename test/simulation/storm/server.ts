/** What a server does with a call that arrives. */
type Reception = "served" | "queued" | "refused" | "unreachable";

/** A server in virtual time, with the calls that it holds. A call is known by its workload. */
export interface Server {
  /** The instant at which the next queued call is done, or infinity. */
  readonly nextDone: number;
  /** @param opensConnection Whether the call needs a connection of its own, with a handshake. */
  offer(workload: number, opensConnection: boolean, now: number): Reception;
  /** Ends the call that is due at {@link nextDone}. @returns Its workload, or -1 if the call takes longer. */
  finish(): number;
}

/** The costs and bounds of `rampart serve`. Seconds are those of one core. */
interface ServeParameters {
  readonly processes: number;
  readonly certificateSeconds: number;
  readonly handshakeSeconds: number;
  /** The cost of a connection or a stream that is ended without an answer. */
  readonly refusalSeconds: number;
  /** Calls that may wait in each process: over connections of their own, and over connections that are kept. */
  readonly connectionPlaces: number;
  readonly streamPlaces: number;
  /** Connections that the kernel holds for a process that has not accepted them. It ignores more. */
  readonly backlog: number;
}

/**
 * `rampart serve`: one queue, as many cores as processes. A call that finds no place is refused at a cost.
 * Refusals and certificates take turns, so refusals can at most double the time of a certificate.
 */
export class Serve implements Server {
  nextDone: number = Number.POSITIVE_INFINITY;
  readonly #parameters: ServeParameters;
  readonly #queue: Int32Array;
  readonly #opens: Uint8Array;
  readonly #waiting: [kept: number, opened: number] = [0, 0];
  #head = 0;
  #length = 0;
  /** The workload of each core, or -1, with the instant of its end and the cost of its call. */
  readonly #workloads: Int32Array;
  readonly #ends: Float64Array;
  readonly #costs: Float64Array;
  readonly #isExtended: Uint8Array;
  /** CPU of refusals that no core has worked off. */
  #debtSeconds = 0;

  constructor(parameters: ServeParameters) {
    this.#parameters = parameters;
    const { processes, connectionPlaces, streamPlaces } = parameters;
    const places = processes * (connectionPlaces + streamPlaces);
    this.#queue = new Int32Array(places);
    this.#opens = new Uint8Array(places);
    this.#workloads = new Int32Array(processes).fill(-1);
    this.#ends = new Float64Array(processes).fill(Number.POSITIVE_INFINITY);
    this.#costs = new Float64Array(processes);
    this.#isExtended = new Uint8Array(processes);
  }

  offer(workload: number, opensConnection: boolean, now: number): Reception {
    const idle = this.#workloads.indexOf(-1);
    if (idle >= 0) {
      this.#begin(idle, workload, opensConnection, now);
      return "queued";
    }
    const kind = opensConnection ? 1 : 0;
    const { processes, connectionPlaces, streamPlaces } = this.#parameters;
    const places = processes * (opensConnection ? connectionPlaces : streamPlaces);
    if (this.#waiting[kind] >= places) return this.#refuse();
    const slot = (this.#head + this.#length++) % this.#queue.length;
    this.#queue[slot] = workload;
    this.#opens[slot] = kind;
    this.#waiting[kind]++;
    return "queued";
  }

  finish(): number {
    const now = this.nextDone;
    const core = this.#ends.indexOf(now);
    const workload = this.#workloads[core] ?? -1;
    if (this.#extend(core)) return -1;
    this.#workloads[core] = -1;
    this.#ends[core] = Number.POSITIVE_INFINITY;
    if (this.#length === 0) this.#findNextDone();
    else this.#beginNext(core, now);
    return workload;
  }

  #refuse(): Reception {
    const { refusalSeconds, backlog, processes } = this.#parameters;
    if (this.#debtSeconds > backlog * processes * refusalSeconds) return "unreachable";
    this.#debtSeconds += refusalSeconds;
    return "refused";
  }

  /** Lets a core work off refusals before it ends its call, once for each call. */
  #extend(core: number): boolean {
    const cost = this.#costs[core] ?? 0;
    const share = Math.min(this.#debtSeconds, cost);
    if (share === 0 || this.#isExtended[core]) return false;
    this.#isExtended[core] = 1;
    this.#debtSeconds -= share;
    this.#ends[core] = (this.#ends[core] ?? 0) + share;
    this.#findNextDone();
    return true;
  }

  #beginNext(core: number, now: number): void {
    const slot = this.#head;
    this.#head = (slot + 1) % this.#queue.length;
    this.#length--;
    const kind = this.#opens[slot] === 1 ? 1 : 0;
    this.#waiting[kind]--;
    this.#begin(core, this.#queue[slot] ?? -1, kind === 1, now);
  }

  #begin(core: number, workload: number, opensConnection: boolean, now: number): void {
    const { certificateSeconds, handshakeSeconds } = this.#parameters;
    const cost = certificateSeconds + (opensConnection ? handshakeSeconds : 0);
    this.#workloads[core] = workload;
    this.#costs[core] = cost;
    this.#isExtended[core] = 0;
    this.#ends[core] = now + cost;
    this.#findNextDone();
  }

  #findNextDone(): void {
    let next = Number.POSITIVE_INFINITY;
    for (const end of this.#ends) if (end < next) next = end;
    this.nextDone = next;
  }
}

/** The Worker: the platform starts as many isolates as the calls need, so no call waits for another. */
export const worker: Server = {
  nextDone: Number.POSITIVE_INFINITY,
  offer: () => "served",
  finish: () => -1,
};
