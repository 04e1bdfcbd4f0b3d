import { RecordName } from "../custody/authority-store.ts";
import type { RevocationContent } from "../custody/record-kinds.ts";
import type { ScheduledAuthority } from "../pki/authority/schedule.ts";
import { type OpenAuthority, SigningAuthority } from "../pki/authority/signing-authority.ts";
import { Taint } from "../pki/authority/taint.ts";
import {
  type BundleHistory,
  type PublishedAuthority,
  TrustBundle,
} from "../pki/authority/trust-bundle.ts";
import { Bytes } from "../pki/encoding/bytes.ts";
import { Pem } from "../pki/encoding/pem.ts";
import { TokenKey } from "../pki/jose/token-key.ts";
import { earlier, later } from "../pki/x509/validity.ts";
import type { Denial } from "./denial.ts";
import type { OpenedStore, RefusedRecord } from "./opened-store.ts";
import { NextStep } from "./rotation/next-step.ts";

/** What requests need of the authorities. It is the same from `validFrom` until `validUntil`. */
export interface AuthorityView {
  readonly validFrom: Date;
  readonly validUntil: Date;
  /** The authority that signs; `undefined` while none may. */
  readonly issuer: OpenAuthority | undefined;
  /**
   * The authorities whose leaves are accepted as credentials: those in the bundle that were never tainted. A tainted
   * root may stay in the bundle for a while, and a thief of its key must not get leaves of its successor.
   */
  readonly vouching: readonly SigningAuthority[];
  /** All denials of the store, also ended ones: callers compare `until`. */
  readonly denials: readonly Denial[];
  /** The authorities whose roots are in the bundle, by their ids: each has leaves that may be revoked. */
  readonly crlIssuers: readonly OpenAuthority[];
  /** Authorities of other signers whose roots are kept out of the bundle. Their CRLs are published, but not in the list of the bundle. */
  readonly apart: readonly OpenAuthority[];
  readonly revocations: readonly RevocationContent[];
  readonly trustBundle: TrustBundle;
  /** The keys for tokens that are published in documents. */
  readonly tokenKeys: readonly TokenKey[];
  /** The elements after the leaf in an answer: each intermediate alone, then all roots as one. */
  readonly chainPem: readonly string[];
  /** Grows with every change of the trust bundle: `spiffe_sequence`. */
  readonly sequence: number;
  /** The input of `sequence`. That of a bundle of several stores is made from the histories of all. */
  readonly history: BundleHistory;
  /** Why no authority signs, and all other faults of the store, one sentence each. */
  readonly reasons: readonly string[];
  /** The store behind the view, for reports. */
  readonly store: OpenedStore;
}

const never = new Date(8.64e15);
const always = new Date(-8.64e15);

/** Makes views. */
export const AuthorityView = {
  /**
   * Derives what this CA signs with and publishes at `now` from an opened store, and the stretch of time in which that
   * does not change.
   */
  at(store: OpenedStore, now: Date): AuthorityView {
    const authorities = store.openAuthorities.map(({ authority }) => authority);
    const inBundle = TrustBundle.authoritiesAt(authorities, now);
    const tainted = idsOf(store.taints);
    const published = publishedIn(store);
    const minted = mintedIn(store);
    const history = TrustBundle.historyAt(minted, store.taints, now);
    const signing = SigningAuthority.at(authorities, now);
    const issuer = store.openAuthorities.find(({ authority }) => authority === signing);
    const trustBundle = TrustBundle.at(published, now);
    const intermediates = signing?.intermediates.map((der) => Pem.format("CERTIFICATE", der)) ?? [];
    return {
      ...stretchAround(now, [
        ...[...minted, ...published].flatMap(({ schedule }) => Object.values(schedule) as Date[]),
        ...store.taints.map((each) => each.retiresAt),
        ...NextStep.changes(store),
      ]),
      issuer,
      vouching: inBundle.filter(({ id }) => !tainted.has(id)),
      denials: store.denials,
      crlIssuers: store.openAuthorities
        .filter(({ authority }) => inBundle.includes(authority))
        .toSorted((a, b) => (a.authority.id < b.authority.id ? -1 : 1)),
      apart: [],
      revocations: store.revocations,
      trustBundle,
      tokenKeys: TokenKey.publishedAt(store.tokenKeys, now),
      chainPem: [...intermediates, trustBundle.pem],
      sequence: TrustBundle.sequence([history]),
      history,
      reasons: [
        ...store.refusals.map(refusalSentence),
        ...whyNothingSigns(store, issuer),
        ...missingTaintsAt(store, now),
        ...exposuresAt(store, now),
        ...NextStep.reasonsAt(store, now),
        ...whyNoTokens(store, now),
      ],
      store,
    };
  },
};

const idsOf = (taints: readonly Taint[]): Set<string> => new Set(taints.map(({ id }) => id));

/** Everything that a taint can be about, with the schedules that it was minted with. */
const mintedIn = (store: OpenedStore): readonly ScheduledAuthority[] => [
  ...store.authorities,
  ...store.additionalRoots,
  ...store.tokenKeys,
];

/** The interval around `now` without a change. Requests may come with times in any order. */
function stretchAround(now: Date, changes: readonly Date[]) {
  return {
    validFrom: changes.filter((instant) => instant <= now).reduce(later, always),
    validUntil: changes.filter((instant) => instant > now).reduce(earlier, never),
  };
}

function refusalSentence({ kind, id, refusal }: RefusedRecord): string {
  return `the ${kind} ${id.slice(0, RecordName.maximumIdLength)} does not open: ${refusal.check}`;
}

function whyNothingSigns(
  { openAuthorities, refusals }: OpenedStore,
  issuer: OpenAuthority | undefined,
): string[] {
  if (issuer) return [];
  if (openAuthorities.length > 0) return ["no authority signs at this time"];
  return refusals.length > 0 ? [] : ["the store holds no authority"];
}

function whyNoTokens({ tokenKeys }: OpenedStore, now: Date): string[] {
  const from = TokenKey.signingAgainFrom(tokenKeys, now);
  return from ? [`no key signs JWT-SVIDs until ${from.toISOString()}`] : [];
}

const publishedIn = (store: OpenedStore): readonly PublishedAuthority[] => [
  ...store.openAuthorities.map(({ authority }) => authority),
  ...Taint.apply(store.additionalRoots, store.taints),
];

/**
 * One sentence for each taint that the configuration states and the store does not have: it was never
 * recorded, or the store withholds it.
 */
export function missingTaintsAt(store: OpenedStore, now: Date): string[] {
  const [all, stored] = [idsOf(store.taints), idsOf(store.storedTaints)];
  return mintedIn(store)
    .filter(({ id, schedule }) => all.has(id) && !stored.has(id) && schedule.retiresAt > now)
    .map(({ id }) => `the store lacks the taint of ${id} that TAINTED_AUTHORITIES states`);
}

/**
 * Selects the taints of the configuration that no record has, unless what they taint has retired. Once recorded, a taint
 * outlasts its line in the configuration: a bundle never takes back what it has withdrawn, and its sequence never falls.
 */
export function unrecordedTaintsAt(store: OpenedStore, now: Date): readonly Taint[] {
  const open = mintedIn(store).filter(({ schedule }) => now < schedule.retiresAt);
  return store.taints.filter(
    ({ id, retiresAt }) =>
      open.some((each) => each.id === id) &&
      !store.storedTaints.some(
        (each) => each.id === id && Number(each.retiresAt) === Number(retiresAt),
      ),
  );
}

/** Lists the tainted authorities whose roots verifiers still trust, one sentence each. */
export function exposuresAt(store: OpenedStore, now: Date): string[] {
  const published = publishedIn(store);
  const trusted = TrustBundle.authoritiesAt(published, now);
  return [...idsOf(store.taints)].flatMap((id) => {
    const roots = published.find((each) => each.id === id)?.roots ?? [];
    // Another authority or an additional root may keep the same root in the bundle.
    const ends = trusted
      .filter((each) => each.roots.some((root) => roots.some((own) => Bytes.equal(own, root))))
      .map(({ schedule }) => schedule.retiresAt.getTime());
    if (ends.length === 0) return [];
    const until = new Date(Math.max(...ends)).toISOString();
    return [`${id} is tainted, and its root trusted until ${until}`];
  });
}
