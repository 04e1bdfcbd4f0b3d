import { byPublication, type Schedule, type ScheduledAuthority } from "../authority/schedule.ts";
import { publicJwk, type SigningKey } from "../crypto-provider.ts";
import { toBase64Url } from "../encoding/base64.ts";
import { type Bytes, fingerprintOf } from "../encoding/bytes.ts";
import { fromX509Signature } from "../signature-algorithm.ts";
import { parseSubjectPublicKey, refuseSubjectKey } from "../x509/subject-public-key.ts";
import { addSeconds, later, wholeSeconds } from "../x509/validity.ts";

/** The algorithms that sign JWT-SVIDs (RFC 7518 §3.1). */
export type TokenAlgorithm = "ES256" | "RS256";

/** A key that signs JWT-SVIDs and nothing else, with its schedule. Its id is the `kid` of its tokens. */
export interface TokenKey extends ScheduledAuthority {
  readonly algorithm: TokenAlgorithm;
  /** SubjectPublicKeyInfo, DER. */
  readonly spki: Bytes;
}

/** A key with its private part open. */
export interface OpenTokenKey extends TokenKey {
  readonly signingKey: SigningKey;
}

/** A key as the records of a store leave it. */
export type StatedTokenKey<Key extends TokenKey = TokenKey> = Key & { readonly isTainted: boolean };

/** The longest life of a JWT-SVID. */
export const longestTokenSeconds = 3600;

/**
 * How long a key is published before it signs. Relying parties cache a key set for up to a day; the hour
 * is for caches on the way to them, and for clocks that differ.
 */
export const publishedAheadSeconds = 25 * 3600;

const signingSeconds = 28 * 24 * 3600;
const clockSeconds = 3600;

/** @throws DerError, CaError `subject-key-unacceptable` for a key that signs no tokens. */
export function createTokenKey(spki: Bytes, schedule: Schedule): TokenKey {
  const { algorithm } = parseSubjectPublicKey(spki);
  const { publishedFrom, signsFrom, signsUntil, retiresAt } = schedule;
  return {
    id: fingerprintOf(spki),
    algorithm: tokenAlgorithmOf(algorithm),
    spki,
    schedule: { publishedFrom, signsFrom, signsUntil, retiresAt },
  };
}

function tokenAlgorithmOf(algorithm: string): TokenAlgorithm {
  if (algorithm === "EC-P256") return "ES256";
  if (algorithm === "RSA") return "RS256";
  throw refuseSubjectKey("algorithm");
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

export async function generateTokenKey(
  algorithm: TokenAlgorithm,
  schedule: Schedule,
): Promise<NewTokenKey> {
  const { privateKey, publicKey } = await crypto.subtle.generateKey(generation[algorithm], true, [
    "sign",
    "verify",
  ]);
  const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
  return { key: createTokenKey(spki, schedule), extractablePrivateKey: privateKey };
}

interface TokenKeyPlan {
  readonly mint: Schedule | undefined;
  /** The ids of keys that nobody needs any more. */
  readonly prune: readonly string[];
}

/**
 * Plans for one key that signs and one that relying parties know already, so that a taint leaves a successor.
 * The plan depends on the keys and on `now` alone.
 *
 * @param algorithm Of new keys; `undefined` where no token is issued.
 */
export function planTokenKeys(
  keys: readonly StatedTokenKey[],
  algorithm: TokenAlgorithm | undefined,
  propagationSeconds: number,
  now: Date,
): TokenKeyPlan {
  // A relying party may keep the set of a key that is gone, and would not know a first one after it.
  const forgotten = publishedAheadSeconds + propagationSeconds;
  const old = keys.filter(({ schedule }) => addSeconds(schedule.retiresAt, forgotten) <= now);
  // A reader that misses the old keys and does not see a new one yet would take the store for empty.
  const isFollowed = keys.some((key) => !old.includes(key) && key.schedule.publishedFrom <= now);
  const prune = isFollowed || algorithm === undefined ? old.map(({ id }) => id) : [];
  const live = keys.filter(
    (key) => !key.isTainted && key.algorithm === algorithm && now < key.schedule.signsUntil,
  );
  const isComing = keys.some(({ schedule }) => now < schedule.publishedFrom);
  if (algorithm === undefined || isComing || live.length >= 2) return { mint: undefined, prune };
  return { mint: scheduleAfter(keys, live, propagationSeconds, now), prune };
}

/**
 * No relying party holds a set without the first key, so that key waits for the readers of the store alone. Were it
 * published sooner, a reader that does not see it yet might publish another first key without it.
 */
function scheduleAfter(
  keys: readonly TokenKey[],
  live: readonly TokenKey[],
  propagationSeconds: number,
  now: Date,
): Schedule {
  const publishedFrom = addSeconds(wholeSeconds(now), propagationSeconds);
  const ahead = keys.length === 0 ? 0 : publishedAheadSeconds;
  const signsFrom = addSeconds(publishedFrom, ahead);
  const follows = live.map(({ schedule }) => schedule.signsUntil).reduce(later, signsFrom);
  const signsUntil = addSeconds(follows, signingSeconds);
  const gone = longestTokenSeconds + clockSeconds + propagationSeconds;
  return { publishedFrom, signsFrom, signsUntil, retiresAt: addSeconds(signsUntil, gone) };
}

/** The keys that relying parties find in the documents, in the order of their publication. */
export const publishedTokenKeysAt = <Key extends StatedTokenKey>(
  keys: readonly Key[],
  now: Date,
): readonly Key[] =>
  keys
    .filter(
      ({ isTainted, schedule }) =>
        !isTainted && schedule.publishedFrom <= now && now < schedule.retiresAt,
    )
    .toSorted(byPublication);

/**
 * The key that signs at `now`: of those that may, the one that ends first, so that a key that somebody minted
 * beside it is known everywhere before its turn. Keys of another algorithm sign only until one of this may.
 *
 * @param keys Every key of the store, in any order.
 */
export function tokenKeyAt<Key extends StatedTokenKey>(
  keys: readonly Key[],
  algorithm: TokenAlgorithm,
  now: Date,
): Key | undefined {
  const first = firstOf(keys);
  const may = keys
    .filter(
      (key) =>
        !key.isTainted && eligibleFrom(key, key === first) <= now && now < key.schedule.signsUntil,
    )
    .toSorted(
      (a, b) =>
        a.schedule.signsUntil.getTime() - b.schedule.signsUntil.getTime() ||
        a.id.localeCompare(b.id),
    );
  return may.find((key) => key.algorithm === algorithm) ?? may[0];
}

/** From when a key signs that is coming; `undefined` where one signs at `now`, or none is coming. */
export function tokensAgainFrom(keys: readonly StatedTokenKey[], now: Date): Date | undefined {
  const first = firstOf(keys);
  const from = keys
    .filter(({ isTainted, schedule }) => !isTainted && now < schedule.signsUntil)
    .map((key) => eligibleFrom(key, key === first));
  return from.some((instant) => instant <= now) ? undefined : from.toSorted(byTime)[0];
}

const byTime = (a: Date, b: Date): number => a.getTime() - b.getTime();

/** The first key of a store. Its successor may be published in the same second, and signs a day later. */
const firstOf = (keys: readonly StatedTokenKey[]): StatedTokenKey | undefined =>
  keys.toSorted(
    (a, b) => byTime(a.schedule.signsFrom, b.schedule.signsFrom) || byPublication(a, b),
  )[0];

/** Two runs of the cron may each have minted a first key. Relying parties may have the set without the second. */
function eligibleFrom({ schedule }: TokenKey, isFirst: boolean): Date {
  if (isFirst) return schedule.signsFrom;
  return later(schedule.signsFrom, addSeconds(schedule.publishedFrom, publishedAheadSeconds));
}

/** A public key as a member of a JWK Set (RFC 7517 §4), without its `use`. */
export async function toPublicJwk({
  id,
  algorithm,
  spki,
}: TokenKey): Promise<JsonWebKey & { readonly kid: string }> {
  return { ...(await publicJwk(spki)), kid: id, alg: algorithm };
}

/** The claims of a JWT-SVID (SPIFFE JWT-SVID §3). Instants are in seconds since 1970. */
export interface TokenClaims {
  readonly iss: string;
  readonly sub: string;
  readonly aud: readonly string[];
  readonly iat: number;
  readonly exp: number;
  readonly jti: string;
}

const encoder = new TextEncoder();
const headers = new WeakMap<OpenTokenKey, string>();

/** A JWT as a compact JWS (RFC 7515 §3.1): the header has `alg`, `kid` and `typ`, and nothing else. */
export async function signToken(key: OpenTokenKey, claims: TokenClaims): Promise<string> {
  const signed = `${headerOf(key)}.${toBase64Url(encoder.encode(JSON.stringify(claims)))}`;
  const { algorithm, dsaEncoding, sign } = key.signingKey;
  const made = sign(encoder.encode(signed));
  const signature = made instanceof Promise ? new Uint8Array(await made) : made;
  const raw =
    dsaEncoding === "der" ? fromX509Signature(signature, algorithm, "ieee-p1363") : signature;
  return `${signed}.${toBase64Url(raw)}`;
}

function headerOf(key: OpenTokenKey): string {
  const known = headers.get(key);
  if (known !== undefined) return known;
  const header = { alg: key.algorithm, kid: key.id, typ: "JWT" };
  const made = toBase64Url(encoder.encode(JSON.stringify(header)));
  headers.set(key, made);
  return made;
}
