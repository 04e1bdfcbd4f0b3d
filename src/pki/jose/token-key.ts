import {
  byPublication,
  inOrderOf,
  type Schedule,
  type ScheduledAuthority,
} from "../authority/schedule.ts";
import { publicJwk } from "../authority/spiffe-bundle.ts";
import { TrustBundle } from "../authority/trust-bundle.ts";
import { type Bytes, fingerprintOf } from "../encoding/bytes.ts";
import { SubjectPublicKey } from "../x509/subject-public-key.ts";
import { addSeconds, later, wholeSeconds } from "../x509/validity.ts";

/** The algorithms that sign JWT-SVIDs (RFC 7518 §3.1). */
type TokenAlgorithm = "ES256" | "RS256";

/**
 * The public key that verifies JWT-SVIDs, and its schedule. The key signs nothing else. Its id is the `kid` of its
 * tokens. {@link OpenTokenKey} has the private key.
 */
export interface TokenKey extends ScheduledAuthority {
  readonly algorithm: TokenAlgorithm;
  /** SubjectPublicKeyInfo, DER. */
  readonly spki: Bytes;
}

/** A key with its private part open. */
export interface OpenTokenKey extends TokenKey {
  readonly privateKey: CryptoKey;
}

/** A key for tokens, and whether a record of the store taints it. */
export type StatedTokenKey<Key extends TokenKey = TokenKey> = Key & { readonly isTainted: boolean };

/**
 * How long a key is published before it signs. Relying parties cache a key set for up to a day; the hour
 * is for caches on the way to them, and for clocks that differ.
 */
export const publishedAheadSeconds = 25 * 3600;

const signingSeconds = 28 * 24 * 3600;
const clockSeconds = 3600;

/** Makes keys for tokens, and selects the one that signs. */
export const TokenKey = {
  /**
   * Makes the published half of a token key from its public key. The fingerprint of the public key is its id.
   * @throws DerError if `spki` cannot be parsed; CaError `subject-key-unacceptable` for a key that signs no tokens.
   */
  create(spki: Bytes, schedule: Schedule): TokenKey {
    const algorithm = tokenAlgorithmOf(SubjectPublicKey.parse(spki).algorithm);
    return { id: fingerprintOf(spki), algorithm, spki, schedule };
  },

  /** Generates a key pair for tokens. The private key is extractable, so that it can be sealed. */
  async generate(algorithm: TokenAlgorithm, schedule: Schedule): Promise<NewTokenKey> {
    const { privateKey, publicKey } = await crypto.subtle.generateKey(generation[algorithm], true, [
      "sign",
      "verify",
    ]);
    const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
    return { key: TokenKey.create(spki, schedule), extractablePrivateKey: privateKey };
  },

  /**
   * Plans for one key that signs and one that relying parties know already, so that a taint leaves a successor.
   * The plan depends on its arguments alone.
   */
  plan(keys: readonly StatedTokenKey[], terms: TokenKeyTerms, now: Date): TokenKeyPlan {
    const { algorithm, propagationSeconds } = terms;
    // A relying party may cache a set with a retired key. If no key were left, the next would count as the first, and sign
    // before that party knows it.
    const forgotten = publishedAheadSeconds + propagationSeconds;
    const old = keys.filter(({ schedule }) => addSeconds(schedule.retiresAt, forgotten) <= now);
    // Old keys stay until another is published: a reader that saw neither would take the store for empty.
    const isFollowed = keys.some((key) => !old.includes(key) && key.schedule.publishedFrom <= now);
    const prune = isFollowed || algorithm === undefined ? old.map(({ id }) => id) : [];
    const live = keys.filter(
      (key) => !key.isTainted && key.algorithm === algorithm && now < key.schedule.signsUntil,
    );
    const isComing = keys.some(({ schedule }) => now < schedule.publishedFrom);
    if (algorithm === undefined || isComing || live.length >= 2) return { mint: undefined, prune };
    return { mint: scheduleAfter(keys, live, terms, now), prune };
  },

  /** The untainted keys that relying parties find in the documents, in the order of their publication. */
  publishedAt: <Key extends StatedTokenKey>(keys: readonly Key[], now: Date): readonly Key[] =>
    TrustBundle.authoritiesAt(keys, now).filter(({ isTainted }) => !isTainted),

  /**
   * The key that signs at `now`; `undefined` if none may. Of several that may, the one that ends first signs, so that a
   * key minted at the same time is published everywhere before its turn. Keys of another algorithm sign only until a key
   * of `algorithm` may.
   *
   * @param keys Every key of the store, in any order.
   */
  signingAt<Key extends StatedTokenKey>(
    keys: readonly Key[],
    algorithm: TokenAlgorithm,
    now: Date,
  ): Key | undefined {
    const may = eligible(keys, now)
      .filter(({ from }) => from <= now)
      .map(({ key }) => key)
      .toSorted(inOrderOf("signsUntil"));
    return may.find((key) => key.algorithm === algorithm) ?? may[0];
  },

  /** From when the next key signs; `undefined` if one signs at `now`, or none is prepared. */
  signingAgainFrom(keys: readonly StatedTokenKey[], now: Date): Date | undefined {
    const instants = eligible(keys, now).map(({ from }) => from);
    return instants.some((from) => from <= now) ? undefined : instants.toSorted(byTime)[0];
  },

  /** A public key as a member of a JWK Set (RFC 7517 §4), without its `use`. */
  async toJwk({ id, algorithm, spki }: TokenKey): Promise<JsonWebKey & { readonly kid: string }> {
    return { ...(await publicJwk(spki)), kid: id, alg: algorithm };
  },

  /** The longest life of a JWT-SVID. */
  longestTokenSeconds: 3600,
};

function tokenAlgorithmOf(algorithm: string): TokenAlgorithm {
  if (algorithm === "EC-P256") return "ES256";
  if (algorithm === "RSA") return "RS256";
  throw SubjectPublicKey.refuse("algorithm");
}

/** A new key with the only copy of its private part that can be exported. Seal it, then drop it. */
export interface NewTokenKey {
  readonly key: TokenKey;
  readonly extractablePrivateKey: CryptoKey;
}

const generation: Readonly<Record<TokenAlgorithm, EcKeyGenParams | RsaHashedKeyGenParams>> = {
  ES256: { name: "ECDSA", namedCurve: "P-256" },
  RS256: {
    name: "RSASSA-PKCS1-v1_5",
    modulusLength: 2048,
    publicExponent: new Uint8Array([1, 0, 1]),
    hash: "SHA-256",
  },
};

/** What is due for the keys of tokens. */
interface TokenKeyPlan {
  readonly mint: Schedule | undefined;
  /** The ids of the keys to delete. */
  readonly prune: readonly string[];
}

/** What the keys of a store are planned for. */
export interface TokenKeyTerms {
  /** The algorithm of new keys; `undefined` if the CA issues no tokens. */
  readonly algorithm: TokenAlgorithm | undefined;
  readonly propagationSeconds: number;
  /** Whether agents and gateways may have a bundle of this mesh that has no key yet. */
  readonly isMeshRunning: boolean;
}

/**
 * How long the first key of a running mesh is published before it signs: followers of the bundle ask every five
 * minutes, and a cache on the way may keep the bundle for another five.
 */
const firstAheadSeconds = 600;

/**
 * The schedule of the next key. The first key waits only for the readers of the store and the followers of the bundle,
 * because no relying party has cached a set without it. If it were published sooner, a reader that does not see it yet might publish another first
 * key.
 */
function scheduleAfter(
  keys: readonly TokenKey[],
  live: readonly TokenKey[],
  { propagationSeconds, isMeshRunning }: TokenKeyTerms,
  now: Date,
): Schedule {
  const first = isMeshRunning ? firstAheadSeconds : 0;
  const publishedFrom = addSeconds(wholeSeconds(now), propagationSeconds);
  const ahead = keys.length === 0 ? first : publishedAheadSeconds;
  const signsFrom = addSeconds(publishedFrom, ahead);
  const follows = live.map(({ schedule }) => schedule.signsUntil).reduce(later, signsFrom);
  const signsUntil = addSeconds(follows, signingSeconds);
  const gone = TokenKey.longestTokenSeconds + clockSeconds + propagationSeconds;
  return { publishedFrom, signsFrom, signsUntil, retiresAt: addSeconds(signsUntil, gone) };
}

const byTime = (a: Date, b: Date): number => a.getTime() - b.getTime();

/** The untainted keys that sign now or later, and from when each may. */
function eligible<Key extends StatedTokenKey>(
  keys: readonly Key[],
  now: Date,
): readonly { readonly key: Key; readonly from: Date }[] {
  // The first key's successor may be published in the same second, and signs a day later.
  const [first] = keys.toSorted(
    (a, b) => byTime(a.schedule.signsFrom, b.schedule.signsFrom) || byPublication(a, b),
  );
  return keys
    .filter(({ isTainted, schedule }) => !isTainted && now < schedule.signsUntil)
    .map((key) => ({ key, from: eligibleFrom(key, key === first) }));
}

/** From when a key may sign. Two runs of the cron may each mint a first key; then caches may lack the second, which waits. */
function eligibleFrom({ schedule }: TokenKey, isFirst: boolean): Date {
  if (isFirst) return schedule.signsFrom;
  return later(schedule.signsFrom, addSeconds(schedule.publishedFrom, publishedAheadSeconds));
}
