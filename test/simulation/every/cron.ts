import { RotationStep, rootSince, Succession } from "../../../src/pki/authority/rotation.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import { Taint } from "../../../src/pki/authority/taint.ts";
import type { PublishedAuthority } from "../../../src/pki/authority/trust-bundle.ts";
import { choicesOf, type Reading, readingsOf, type Written } from "./records.ts";
import { at, octetsOf, type State, type World, wholeReading } from "./world.ts";

/** The runs of the cron in a small world, by the real planner. */
export class Cron {
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** The state as it is, and after each run of the cron that may begin now: by any reading and any clock, cut off anywhere. */
  runs(state: State): readonly State[] {
    const { now, store, madeAt, left } = state;
    const { propagation } = this.#world;
    const isDue = this.planned(wholeReading(this.#world, state), now).length > 0;
    const idle = { ...state, dueSince: isDue ? (state.dueSince ?? now) : undefined };
    const isDouble = madeAt !== undefined && now - madeAt < propagation;
    const after: State[] = [];
    for (const reading of readingsOf(store, now, this.#world.lag)) {
      for (const ahead of this.#world.clocks) {
        const steps = this.planned(reading, now + ahead).filter((step) =>
          step.act === "prune" ? this.#isThere(state, step.id) : !isDouble || left.doubles > 0,
        );
        for (const some of choicesOf(steps).filter(({ length }) => length > 0)) {
          for (const each of this.carriedOut(idle, reading, some, now + ahead)) {
            const hasMade = each.made > state.made;
            const noted = this.noted({
              ...each,
              madeAt: hasMade ? now : madeAt,
              left: hasMade && isDouble ? { ...left, doubles: left.doubles - 1 } : left,
            });
            after.push(noted);
          }
        }
      }
    }
    return [idle, ...after];
  }

  #isThere({ store }: State, id: string): boolean {
    return store.authorities.some(
      ({ record, deletedAt }) => record.id === id && deletedAt === undefined,
    );
  }

  /** Whether a run is still due after this one. */
  noted(state: State): State {
    const isDue = this.planned(wholeReading(this.#world, state), state.now).length > 0;
    return isDue ? state : { ...state, dueSince: undefined };
  }

  planned(reading: Reading, now: number): readonly RotationStep[] {
    if (reading.authorities.length === 0) return [];
    const { authorityRoot } = this.#world;
    return RotationStep.plan({ ...reading, authorityRoot }, this.#world.lengths, at(now));
  }

  carriedOut(
    state: State,
    reading: Reading,
    steps: readonly RotationStep[],
    now: number,
  ): readonly State[] {
    return steps.reduce<readonly State[]>(
      (states, step) => states.flatMap((each) => this.#step(each, reading, step, now)),
      [state],
    );
  }

  #step(state: State, reading: Reading, step: RotationStep, now: number): readonly State[] {
    switch (step.act) {
      case "mint":
        return [this.put(state, step.schedule, [`own ${state.made}`])];
      case "prune":
        return [this.#deleted(state, step.id)];
      case "ask":
        return this.#asked(state, reading, now);
    }
  }

  /** The company keeps its root, has the next beside it, or turns to the next: in time, or under the old one. */
  #asked(state: State, reading: Reading, now: number): readonly State[] {
    const { authorities, additionalRoots, taints } = reading;
    const published = Taint.apply([...authorities, ...additionalRoots], taints);
    const { deadline } = Succession.of(Taint.apply(authorities, taints), this.#world.lengths);
    const [own, next] = [`company ${state.company}`, `company ${state.company + 1}`];
    const life = this.#world.life;
    const same = this.install(state, published, now, { root: own, life });
    if (at(now + 2 * this.#world.skew) > deadline) return [same];
    if (state.left.turns === 0) return [same];
    const left = { ...state.left, turns: state.left.turns - 1 };
    const turned = { ...state, left, company: state.company + 1 };
    return [
      same,
      this.install({ ...state, left }, published, now, { root: own, beside: [next], life }),
      this.install(turned, published, now, { root: next, life }),
    ];
  }

  #deleted(state: State, id: string): State {
    const { store, now } = state;
    const authorities = store.authorities.map((each) =>
      each.record.id === id && each.deletedAt === undefined ? { ...each, deletedAt: now } : each,
    );
    return { ...state, store: { ...store, authorities } };
  }

  put(state: State, schedule: Schedule, roots: readonly string[]): State {
    const record: PublishedAuthority = {
      id: `${state.made}`.padStart(4, "0"),
      roots: roots.map(octetsOf),
      schedule,
    };
    const written: Written<PublishedAuthority> = { record, at: state.now };
    const { store } = state;
    return {
      ...state,
      made: state.made + 1,
      store: { ...store, authorities: [...store.authorities, written] },
    };
  }

  /** An intermediate that another CA has certified, by the reading of who installs it. */
  install(
    state: State,
    published: readonly PublishedAuthority[],
    now: number,
    { root, beside = [], life }: { root: string; beside?: readonly string[]; life: number },
  ): State {
    const visible = at(now + this.#world.propagation);
    const others = published.filter(({ schedule }) => schedule.signsFrom < schedule.signsUntil);
    const installation = {
      expiresAt: at(now + life),
      rootSince: rootSince(published, octetsOf(root), visible),
      othersSignUntil:
        others.length === 0
          ? undefined
          : new Date(Math.max(...others.map(({ schedule }) => schedule.signsUntil.getTime()))),
    };
    const schedule = Schedule.installed(this.#world.lengths, installation, at(now));
    return this.put(state, schedule, [root, ...beside]);
  }
}
