import { adoptedSchedule } from "../../../src/pki/authority/adopted-schedule.ts";
import { createTaint } from "../../../src/pki/authority/new-taint.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import type { Taint } from "../../../src/pki/authority/taint.ts";
import { TrustBundle } from "../../../src/pki/authority/trust-bundle.ts";
import type { Cron } from "./cron.ts";
import { choicesOf, countedIn, statedBy, type Written } from "./records.ts";
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
      ...this.#configured(state),
      ...this.#crossedOut(state),
      ...this.#keyed(state),
      ...this.#keysPruned(state),
    ];
  }

  /** The states in which a history may begin. */
  beginnings(): readonly State[] {
    const { beginning, doubles, turns, taints, imports, restores, lines, keys } = this.#world;
    const empty: State = {
      now: 0,
      store: { authorities: [], roots: [], keys: [], taints: [], configured: [] },
      answers: [],
      contents: new Map(),
      settled: undefined,
      dueSince: undefined,
      madeAt: undefined,
      tainting: undefined,
      left: { doubles, turns, taints, imports, restores, lines, keys },
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
            : this.#cron.put(state, Schedule.first(lengths, at(now)), [`own ${state.made}`]);
        const once = first(empty, 0);
        if (beginning === "founded") return [once];
        return Array.from({ length: Math.max(1, propagation - 2 * skew) }, (_, i) =>
          writtenAt(first(once, i, "company 1"), i),
        );
      }
      case "joining":
        return [own(Schedule.joining(lengths, at(0)))];
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
    if (this.#isSpreading(state)) return [];
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

  /** For a propagation interval, two taints that readers learn of in any order may have one number. */
  #isSpreading({ now, store }: State): boolean {
    const { propagation } = this.#world;
    return [...store.taints, ...store.configured].some((each) => now - each.at < propagation);
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

  /**
   * A line of TAINTED_AUTHORITIES: without `root_until`, with one that is now, and with one that is over. The first
   * process that has the line records its taint.
   */
  #configured(state: State): readonly State[] {
    const { now, left, store } = state;
    if (left.lines === 0 || this.#isSpreading(state)) return [];
    const reading = wholeReading(this.#world, state);
    const line = (idPrefix: string, rootUntil: Date | undefined): State => {
      const record = { idPrefix, rootUntil };
      const stated = statedBy([record], reading).map((taint) => ({ record: taint, at: now }));
      return {
        ...state,
        store: {
          ...store,
          configured: [...store.configured, { record, at: now }],
          taints: [...store.taints, ...stated],
        },
        left: { ...left, lines: left.lines - 1 },
      };
    };
    const { authorities, additionalRoots, keys } = reading;
    const untils = [undefined, at(now), at(now - 4)];
    return [
      ...authorities.flatMap(({ id, roots: [root] }) =>
        untils.map((until) =>
          this.#cron.noted({
            ...line(id, until),
            tainting: {
              id,
              root: root ? nameOf(root) : "",
              at: now,
              departure: until ? "immediately" : "with-last-leaf",
            },
            dueSince: state.dueSince ?? now,
          }),
        ),
      ),
      ...additionalRoots.flatMap(({ id }) => untils.map((until) => line(id, until))),
      ...keys.map(({ id }) => line(id, undefined)),
    ];
  }

  /** A line goes, at any time: whoever publishes a bundle by it has recorded its taints before. */
  #crossedOut(state: State): readonly State[] {
    const { store, now } = state;
    const open = store.configured.filter(({ deletedAt }) => deletedAt === undefined);
    return open.map((line) => ({
      ...state,
      store: { ...store, configured: deletedIn(store.configured, line, now) },
    }));
  }

  #keyed(state: State): readonly State[] {
    const { now, left, store, made } = state;
    if (left.keys === 0) return [];
    const from = at(now + this.#world.propagation);
    const signsUntil = at(now + this.#world.propagation + 2);
    const retiresAt = at(now + this.#world.propagation + 4);
    const record = {
      id: `k${made}`,
      roots: [octetsOf(`key ${made}`)],
      schedule: { publishedFrom: from, signsFrom: from, signsUntil, retiresAt },
    };
    return [
      {
        ...state,
        made: made + 1,
        store: { ...store, keys: [...store.keys, { record, at: now }] },
        left: { ...left, keys: left.keys - 1 },
      },
    ];
  }

  #keysPruned(state: State): readonly State[] {
    const { store, now } = state;
    const reading = wholeReading(this.#world, state);
    const since = at(now - this.#world.propagation);
    const old = reading.keys.filter(({ schedule }) => schedule.retiresAt < since);
    const ids = TrustBundle.dispensable(old, countedIn(reading), since);
    const gone = store.keys.filter(({ record }) => ids.includes(record.id));
    if (gone.length === 0) return [];
    const keys = gone.reduce((kept, each) => deletedIn(kept, each, now), store.keys);
    return [{ ...state, store: { ...store, keys } }];
  }
}

const deletedIn = <T>(
  list: readonly Written<T>[],
  gone: Written<T>,
  deletedAt: number,
): readonly Written<T>[] => list.map((each) => (each === gone ? { ...each, deletedAt } : each));

/** The state with its last authority written then. */
function writtenAt(state: State, tick: number): State {
  const { store } = state;
  const authorities = store.authorities.map((each, i, all) =>
    i === all.length - 1 ? { ...each, at: tick } : each,
  );
  return { ...state, store: { ...store, authorities } };
}
