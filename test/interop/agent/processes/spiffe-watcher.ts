import { type Child, startChild } from "../../../testkit/programs/child-process.ts";

/** One state of the Workload API, as a client library reports it. */
interface WatchedState {
  readonly spiffeId: string;
  readonly serial: string;
  readonly roots: number;
  /** The roots of the federated trust domain `other.test`. */
  readonly foreignRoots: number;
  readonly verified: boolean;
}

/** A program that watches the Workload API with a client library of other authors. */
export class SpiffeWatcher {
  readonly states: WatchedState[] = [];
  readonly #child: Child;

  constructor(command: readonly string[], socket: string, logFile: string) {
    const [program = "", ...values] = command;
    const environment = { SPIFFE_ENDPOINT_SOCKET: `unix://${socket}` };
    this.#child = startChild(program, values, { logFile, environment });
    this.#child.onLine((line) => this.states.push(JSON.parse(line) as WatchedState));
  }

  end(): Promise<number> {
    return this.#child.end();
  }

  /** The faults in the states seen during a rotation. */
  faultOf(spiffeId: string): string {
    if (this.states.length === 0) return "nothing was seen";
    const wrong = this.states.find((state) => state.spiffeId !== spiffeId || !state.verified);
    if (wrong) return `a state that does not verify: ${JSON.stringify(wrong)}`;
    const serials = new Set(this.states.map(({ serial }) => serial));
    if (serials.size < 3) return `only ${serials.size} certificates were seen`;
    if (!this.states.some(({ roots }) => roots > 1)) return "never more than one root was seen";
    const foreign = this.states.at(-1)?.foreignRoots;
    return foreign === 1 ? "" : `${foreign} foreign roots were seen`;
  }
}
