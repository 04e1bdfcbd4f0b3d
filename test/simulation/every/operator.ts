import {
  adoptedSchedule,
  firstSchedule,
  joiningSchedule,
  type Schedule,
} from "../../../src/pki/authority/schedule.ts";
import { createTaint, type Taint } from "../../../src/pki/authority/taint.ts";
import type { Cron } from "./cron.ts";
import { choicesOf } from "./records.ts";
import {
  at,
  type Beginning,
  nameOf,
  octetsOf,
  type State,
  type World,
  wholeReading,
} from "./world.ts";

/** What a person does in a small world: begins it, taints, trusts a root, takes it out, restores. */
export class Operator {
  readonly #world: World;
  readonly #cron: Cron;

  constructor(world: World, cron: Cron) {
    this.#world = world;
    this.#cron = cron;
  }

  /** The states after each of them, but for the beginning. */
  acts(state: State): readonly State[] {
    return [
      ...this.#tainted(state),
      ...this.#imported(state),
      ...this.#retired(state),
      ...this.#restored(state),
    ];
  }

  /** The states in which a history may begin. */
  beginnings(): readonly State[] {
    const { beginning, doubles, turns, taints, imports, restores } = this.#world;
    const empty: State = {
      now: 0,
      store: { authorities: [], roots: [], taints: [] },
      answers: [],
      contents: new Map(),
      settled: undefined,
      dueSince: undefined,
      madeAt: undefined,
      tainting: undefined,
      left: { doubles, turns, taints, imports, restores },
      made: 0,
      company: 0,
    };
    return this.#begun(empty, beginning);
  }

  #begun(empty: State, beginning: Beginning): readonly State[] {
    const lengths = this.#world.lengths;
    const { propagation, skew } = this.#world;
    const isForeign = this.#world.authorityRoot !== "self";
    const own = (schedule: Schedule) => this.#cron.put(empty, schedule, [`own ${empty.made}`]);
    switch (beginning) {
      case "founded":
      case "founded twice": {
        const first = (state: State, now: number, root = "company 0"): State =>
          isForeign
            ? this.#cron.install(state, [], now, { root, life: this.#world.life })
            : this.#cron.put(state, firstSchedule(lengths, at(now)), [`own ${state.made}`]);
        const once = first(empty, 0);
        if (beginning === "founded") return [once];
        return Array.from({ length: Math.max(1, propagation - 2 * skew) }, (_, i) =>
          writtenAt(first(once, i, "company 1"), i),
        );
      }
      case "joining":
        return [own(joiningSchedule(lengths, at(0)))];
      case "adopted": {
        const expiresAt = at(this.#world.life);
        const adopted = adoptedSchedule(lengths, expiresAt, at(0));
        // The leaves and bundles of the mesh as it was.
        const before = { at: 0, issuer: "0000", root: "before", bundle: new Set(["before"]) };
        return [this.#cron.put({ ...empty, answers: [before] }, adopted, ["before"])];
      }
    }
  }

  /** An operator taints an authority by what one reader shows; the verb rotates then, or is cut off. */
  #tainted(state: State): readonly State[] {
    const { now, left, tainting } = state;
    if (left.taints === 0 || tainting !== undefined) return [];
    const reading = wholeReading(this.#world, state);
    const { authorities, taints } = reading;
    const departures = ["immediately", "with-last-leaf"] as const;
    return authorities.flatMap(({ id, roots: [root] }) =>
      departures.flatMap((departure) => {
        const taint = createTaint(
          { authorities, taints },
          id,
          departure,
          this.#world.lengths,
          at(now),
        );
        const { store } = state;
        const tainted: State = {
          ...state,
          store: { ...store, taints: [...store.taints, { record: taint, at: now }] },
          tainting: { id, root: root ? nameOf(root) : "", at: now, departure },
          left: { ...left, taints: left.taints - 1 },
        };
        const known = { ...reading, taints: [...taints, taint] };
        const steps = this.#cron.planned(known, now);
        return choicesOf(steps)
          .flatMap((some) => this.#cron.carriedOut(tainted, known, some, now))
          .map((each) => this.#cron.noted({ ...each, dueSince: each.dueSince ?? now }));
      }),
    );
  }

  /** An operator trusts the root of another CA from when every reader knows it. */
  #imported(state: State): readonly State[] {
    const { now, left, store, made } = state;
    if (left.imports === 0) return [];
    const from = at(now + this.#world.propagation);
    const schedule = {
      publishedFrom: from,
      signsFrom: from,
      signsUntil: from,
      retiresAt: at(now + this.#world.life),
    };
    const record = { id: `r${made}`, roots: [octetsOf("another")], schedule };
    return [
      {
        ...state,
        made: made + 1,
        store: { ...store, roots: [...store.roots, { record, at: now }] },
        left: { ...left, imports: left.imports - 1 },
      },
    ];
  }

  /** An operator takes that root out again, at once or in two propagation intervals. */
  #retired(state: State): readonly State[] {
    const { now, store } = state;
    const open = store.roots.filter(
      ({ record, at: since }) =>
        now - since >= this.#world.propagation &&
        !store.taints.some((taint) => taint.record.id === record.id),
    );
    return open.flatMap(({ record }) =>
      [0, 2 * this.#world.propagation].map((wait) => {
        const taint: Taint = { id: record.id, taintedAt: at(now), retiresAt: at(now + wait) };
        return {
          ...state,
          store: { ...store, taints: [...store.taints, { record: taint, at: now }] },
        };
      }),
    );
  }

  /** A backup from before the last deletions comes back: what was deleted is there again. */
  #restored(state: State): readonly State[] {
    const { left, store, now } = state;
    if (left.restores === 0 || !store.authorities.some(({ deletedAt }) => deletedAt !== undefined))
      return [];
    const authorities = store.authorities.map(({ record, at: since, deletedAt }) =>
      deletedAt === undefined ? { record, at: since } : { record, at: now },
    );
    return [
      {
        ...state,
        store: { ...store, authorities },
        left: { ...left, restores: left.restores - 1 },
      },
    ];
  }
}

/** The state with its last authority written then. */
function writtenAt(state: State, tick: number): State {
  const { store } = state;
  const authorities = store.authorities.map((each, i, all) =>
    i === all.length - 1 ? { ...each, at: tick } : each,
  );
  return { ...state, store: { ...store, authorities } };
}
