import type { Departure } from "../../../src/pki/authority/new-taint.ts";
import type { AuthorityRoot } from "../../../src/pki/authority/rotation.ts";
import { type PhaseLengths, Schedule } from "../../../src/pki/authority/schedule.ts";
import type { PublishedAuthority } from "../../../src/pki/authority/trust-bundle.ts";
import { Violation } from "../violation.ts";
import { type Reading, readingsOf, type SmallStore, type Written } from "./records.ts";

/** How the first authority of a small world came about. */
export type Beginning = "founded" | "founded twice" | "joining" | "adopted";

/** The bounds of a small world. Lengths are in ticks: all that happens, happens at one. */
export interface Bounds {
  readonly authorityRoot: AuthorityRoot;
  readonly beginning: Beginning;
  readonly propagation: number;
  readonly leaf: number;
  readonly signing: number;
  /** How far the clock of any process is ahead or behind. */
  readonly skew: number;
  /** How often the cron runs twice within a propagation interval, and makes an authority each time. */
  readonly doubles: number;
  /** How often the CA upstream turns to another root, or publishes it beside its own. */
  readonly turns: number;
  /** How often an operator taints an authority, adds a root, and restores the store from an older backup. */
  readonly taints: number;
  readonly imports: number;
  readonly restores: number;
  /** How often a line of TAINTED_AUTHORITIES names an authority, a root or a key, and how many keys for tokens come. */
  readonly lines: number;
  readonly keys: number;
}

/** A tick, in seconds. */
const tick = 60;
const epoch = 1_800_000_000;
export const at = (now: number): Date => new Date((epoch + now * tick) * 1000);
export const tickOf = (instant: Date): number => (instant.getTime() / 1000 - epoch) / tick;

/** What a reader of one tick may have answered: the authority of the leaf, and the bundle. */
export interface Answer {
  readonly at: number;
  readonly issuer: string;
  /** The root to which the leaf leads. */
  readonly root: string;
  readonly bundle: ReadonlySet<string>;
}

export interface Tainting {
  readonly id: string;
  readonly root: string;
  readonly at: number;
  readonly departure: Departure;
}

/** One state of a small world. */
export interface State {
  readonly now: number;
  readonly store: SmallStore;
  readonly answers: readonly Answer[];
  /** The contents of the bundles that readers gave lately, by their sequence. */
  readonly contents: ReadonlyMap<number, Given>;
  /** The bundle of a reader that sees every write and has the right time. */
  readonly settled: { readonly sequence: number; readonly content: string } | undefined;
  /** Since when a run has been due that was not completed. */
  readonly dueSince: number | undefined;
  /** When a run last made an authority. */
  readonly madeAt: number | undefined;
  readonly tainting: Tainting | undefined;
  readonly left: Pick<
    Bounds,
    "doubles" | "turns" | "taints" | "imports" | "restores" | "lines" | "keys"
  >;
  readonly made: number;
  readonly company: number;
}

/** A content of a bundle, and when a reader gave it last. */
export interface Given {
  readonly content: string;
  readonly at: number;
}

export const nameOf = (root: Uint8Array): string => new TextDecoder().decode(root);
export const octetsOf = (name: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(name);

/** The bounds of a world with what follows from them. */
export interface World extends Bounds {
  readonly lengths: PhaseLengths;
  /** How long a reader may lack a write: a propagation interval without the difference of two clocks. */
  readonly lag: number;
  /** How long a cron that is due may not run: half of the spare time. */
  readonly spare: number;
  /** How long the certificate of an authority usually lives, where another CA signs it. */
  readonly life: number;
  /** How far a clock may be from the true time. */
  readonly clocks: readonly number[];
}

export function worldWithin(bounds: Bounds): World {
  const { authorityRoot, propagation, leaf, signing, skew } = bounds;
  const lengths = {
    propagationSeconds: propagation * tick,
    longestLeafSeconds: leaf * tick,
    signingSeconds: signing * tick,
  };
  const lead = Schedule.leadSeconds(lengths) / tick;
  return {
    ...bounds,
    lengths,
    lag: propagation - 2 * skew,
    // An intermediate signs for as long as its certificate allows.
    spare: Math.max(
      1,
      Math.floor((authorityRoot === "self" ? signing - lead : signing - propagation) / 2),
    ),
    life: signing + 2 * lead,
    clocks: skew === 0 ? [0] : [-skew, 0, skew],
  };
}

/** What a reader sees that lacks no write. */
export function wholeReading({ lag }: World, { store, now }: State): Reading {
  const [whole] = readingsOf(store, now + lag, lag);
  if (!whole) throw new Error("a store shows something");
  return whole;
}

export function violation({ now, store }: State, what: string): Violation {
  const show = ({ record: { id, schedule }, deletedAt }: Written<PublishedAuthority>): string =>
    `${id}: ${Object.values(schedule).map(tickOf).join(" ")}${deletedAt === undefined ? "" : ` deleted at ${deletedAt}`}`;
  const taints = store.taints.map(({ record, at: since }) => `${record.id} at ${since}`);
  const lines = store.configured.map(({ record, at: since }) => `${record.idPrefix} at ${since}`);
  const records = [...store.authorities, ...store.roots, ...store.keys].map(show).join("; ");
  return new Violation(
    `tick ${now}: ${what} (${records}; taints ${taints.join("; ")}; lines ${lines.join("; ")})`,
  );
}
