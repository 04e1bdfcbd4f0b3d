import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { Taint } from "../../../src/pki/authority/taint.ts";
import { TrustBundle } from "../../../src/pki/authority/trust-bundle.ts";
import { countedIn, publishedIn, type Reading, readingsOf } from "./records.ts";
import {
  type Answer,
  at,
  type Given,
  nameOf,
  octetsOf,
  type State,
  type Tainting,
  violation,
  type World,
  wholeReading,
} from "./world.ts";

/** Three generations, each of two authorities that were made without knowing of each other, and one for a taint. */
const mostOwn = 7;
/** The certificates of intermediates live longer than they sign, so that there is one generation more. */
const mostIntermediates = 9;

/** What readers of a small world may answer, and what must hold of it. */
export class Answers {
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** Every answer that any reader may give now, by any reading and any clock. @throws Violation */
  answered(state: State): State {
    const { now, store, tainting } = state;
    const { propagation, skew, leaf } = this.#world;
    const answers = new Map<string, Answer>();
    const contents = new Map(
      [...state.contents].filter(([, { at: since }]) => now - since < propagation + 2 * skew + 1),
    );
    for (const reading of readingsOf(store, now, this.#world.lag)) {
      for (const ahead of this.#world.clocks) {
        for (const answer of this.#answers(state, reading, now + ahead, contents)) {
          answers.set(JSON.stringify([answer.issuer, [...answer.bundle]]), answer);
        }
      }
    }
    const live = state.answers.filter((each) => now - each.at < leaf);
    const all = [...live, ...answers.values()];
    for (const one of all) {
      for (const other of all) {
        if (one.at !== now && other.at !== now) continue;
        if (other.bundle.has(one.root) || this.#isExcused(one, now, tainting)) continue;
        throw violation(state, `a live leaf of ${one.root} does not verify`);
      }
    }
    const settled = this.#settled(state);
    return { ...state, answers: this.#longest(state, all), contents, settled };
  }

  /** Of answers that are alike in all that a later check asks, the last one: it lives longest. */
  #longest({ tainting, left }: State, all: readonly Answer[]): readonly Answer[] {
    const isIssuerAsked =
      tainting !== undefined || left.taints > 0 || this.#world.beginning === "joining";
    const alike = new Map<string, Answer>();
    for (const each of all.toSorted((a, b) => a.at - b.at)) {
      const isAfter = tainting !== undefined && each.at >= tainting.at;
      const issuer = isIssuerAsked ? each.issuer : "";
      alike.set(JSON.stringify([issuer, each.root, [...each.bundle], isAfter]), each);
    }
    return [...alike.values()];
  }

  #answers(
    state: State,
    reading: Reading,
    clock: number,
    contents: Map<number, Given>,
  ): readonly Answer[] {
    const { taints } = reading;
    const authorities = Taint.apply(reading.authorities, taints);
    const published = [...authorities, ...Taint.apply(reading.additionalRoots, taints)];
    const now = at(clock);
    const own = TrustBundle.at(published, now).roots.map(nameOf);
    const most = this.#world.authorityRoot === "self" ? mostOwn : mostIntermediates;
    if (state.store.authorities.length > most) {
      throw violation(state, "too many authorities");
    }
    // The mesh that a signer joins has authorities and verifiers of its own.
    const mesh = this.#world.beginning === "joining" ? ["mesh"] : [];
    const roots = [...mesh, ...own];
    const bundle = new Set(roots);
    const others = mesh.map((root) => ({ at: state.now, issuer: root, root, bundle }));
    const authority = SigningAuthority.at(authorities, now);
    if (!authority) {
      if (this.#mayWait(state)) return others;
      throw violation(state, "nothing signs");
    }
    if (at(clock + this.#world.leaf) > authority.schedule.retiresAt) {
      throw violation(state, "a leaf outlives its authority");
    }
    this.#numbered(state, sequenceIn(reading, now), contentIn(reading, now), contents);
    this.#requireTaint(state, authority.id, roots);
    const [root = octetsOf("")] = authority.roots;
    return [...others, { at: state.now, issuer: authority.id, root: nameOf(root), bundle }];
  }

  /** No reader gives two bundles under one number. @throws Violation */
  #numbered(state: State, sequence: number, content: string, contents: Map<number, Given>): void {
    const known = contents.get(sequence);
    if (known && known.content !== content) {
      throw violation(state, `two bundles of one sequence: ${known.content} and ${content}`);
    }
    contents.set(sequence, { content, at: state.now });
  }

  /** The number grows with every change, and is never less. @throws Violation */
  #settled(state: State): State["settled"] {
    const reading = wholeReading(this.#world, state);
    const content = contentIn(reading, at(state.now));
    const sequence = sequenceIn(reading, at(state.now));
    const before = state.settled;
    const isSame = before?.content === content;
    if (before && (isSame ? sequence < before.sequence : sequence <= before.sequence)) {
      throw violation(state, `the sequence goes from ${before.sequence} to ${sequence}`);
    }
    return { sequence, content };
  }

  /** Nothing signs before the first authority does, and for two propagation intervals after a taint. */
  #mayWait({ now, tainting, answers }: State): boolean {
    const { beginning, propagation, leaf, skew } = this.#world;
    const first = beginning === "joining" ? 2 * propagation + leaf : 2 * propagation;
    if (
      now <= first + propagation + skew &&
      (answers.every(({ issuer }) => issuer === "mesh") || now <= first + skew)
    )
      return true;
    return tainting !== undefined && now - tainting.at <= 2 * propagation + 2 * skew;
  }

  #requireTaint(state: State, signer: string, roots: readonly string[]): void {
    const { tainting, now } = state;
    if (!tainting || now - tainting.at < this.#world.propagation) return;
    if (signer === tainting.id) throw violation(state, "a tainted authority signs");
    const isOwn = this.#world.authorityRoot === "self";
    if (isOwn && tainting.departure === "immediately" && roots.includes(tainting.root)) {
      throw violation(state, "a root that was to leave at once is still there");
    }
  }

  /**
   * Until every bundle has changed, a taint may break leaves of the tainted authority, if its root leaves at once, and
   * those of its successor, which signs before every bundle has its root.
   */
  #isExcused(one: Answer, now: number, tainting: Tainting | undefined): boolean {
    if (!tainting) return false;
    const { propagation, leaf, skew } = this.#world;
    if (now - tainting.at > 2 * propagation + 2 * leaf + 2 * skew) return false;
    if (tainting.departure === "immediately" && one.root === tainting.root) return true;
    return one.at >= tainting.at && one.issuer !== tainting.id;
  }
}

const sequenceIn = (reading: Reading, now: Date): number =>
  TrustBundle.sequence([TrustBundle.historyAt(countedIn(reading), reading.taints, now)]);

const contentIn = (reading: Reading, now: Date): string =>
  TrustBundle.at(publishedIn(reading), now).roots.map(nameOf).join();
