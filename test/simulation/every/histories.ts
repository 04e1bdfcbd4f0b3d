import { Answers } from "./answers.ts";
import { Cron } from "./cron.ts";
import { Operator } from "./operator.ts";
import type { Written } from "./records.ts";
import { type Bounds, type State, type World, worldWithin } from "./world.ts";

/** The histories of a small world: where they begin, and how each goes on. */
export class Histories {
  readonly #world: World;
  readonly #cron: Cron;
  readonly #operator: Operator;
  readonly #answers: Answers;

  constructor(bounds: Bounds) {
    this.#world = worldWithin(bounds);
    this.#cron = new Cron(this.#world);
    this.#operator = new Operator(this.#world, this.#cron);
    this.#answers = new Answers(this.#world);
  }

  beginnings(): readonly State[] {
    return this.#operator.beginnings();
  }

  /** Every state that may follow in the next tick. @throws Violation */
  next(state: State): readonly State[] {
    const acted = this.#acts(state);
    return acted.map((each) => this.#passed(this.#answers.answered(each)));
  }

  /** Whatever happens within this tick: nothing, runs of the cron, an operator. */
  #acts(state: State): readonly State[] {
    const once = this.#cron.runs(state);
    const twice = once.flatMap((each) => (each.made > state.made ? this.#cron.runs(each) : []));
    const inTime = [...once, ...twice].filter((each) => this.#isInTime(each));
    // A run that is due is due whatever an operator does.
    const [idle = state] = once;
    const operator = this.#operator.acts(idle);
    return [...inTime, ...operator.filter((each) => this.#isInTime(each))];
  }

  /** The promise of the page on rotation: half of the spare time is left for a cron that does not run. */
  #isInTime({ now, dueSince }: State): boolean {
    return dueSince === undefined || now - dueSince < this.#world.spare;
  }

  #passed(state: State): State {
    const now = state.now + 1;
    const { propagation } = this.#world;
    const { store, madeAt } = state;
    const isGone = ({ deletedAt }: Written<unknown>): boolean =>
      deletedAt !== undefined && now - deletedAt >= (state.left.restores > 0 ? 3 : 1) * propagation;
    return {
      ...state,
      now,
      store: {
        ...store,
        authorities: store.authorities.filter((each) => !isGone(each)),
        keys: store.keys.filter((each) => !isGone(each)),
        // Once every reader has the record of its taint, a line changes nothing.
        configured: store.configured.filter((each) => !isGone(each) && now - each.at < propagation),
      },
      madeAt: madeAt !== undefined && now - madeAt < propagation ? madeAt : undefined,
    };
  }
}
