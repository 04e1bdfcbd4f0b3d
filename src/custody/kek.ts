import type { SealParameters } from "../pki/crypto-provider.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { ImportParameters } from "../pki/signature-algorithm.ts";
import { RecordError, type SealedKey } from "./record-fields.ts";

/** A key-encryption key: 256 bits of AES-GCM that WebCrypto never exports. */
export interface Kek {
  /** The operator's name for the key. A record names the KEK that sealed it. */
  readonly id: string;
  readonly key: CryptoKey;
  /** Authenticates statements, with HMAC-SHA-256. It is derived, so that each key has one purpose. */
  readonly statementKey: CryptoKey;
}

/** Every KEK that may open a record. The first one seals. */
export type KekRing = readonly [Kek, ...Kek[]];

/** The trust domain and the KEKs by which records are sealed and opened. A record of another one does not open. */
export interface Custodian {
  readonly trustDomain: string;
  readonly keks: KekRing;
}

/** The KEKs of a CA. They are held until the process ends, or the lease of a key service does. */
export interface HeldKeks {
  /** The KEKs of the unnamed authorities, or of a named signer. Reading the keys of one that is no longer held throws a CaError. */
  readonly ring: (signer?: string) => KekRing;
  /**
   * Unwraps the KEKs unless they are held at this time.
   *
   * @returns `undefined` while they are held, so that a call needs no await. Where no work goes on after its call, the call
   *   that renews the lease gets a promise.
   * @throws CaError `kek-unavailable`
   */
  readonly hold: (now: Date) => Promise<void> | undefined;
  /** Why a key service did not unwrap a KEK when it was last asked: one sentence, which may be shown to any caller. */
  readonly fault: () => string | undefined;
  /** Until when the KEKs are held, which may be past; `undefined` without a lease, or before they are held. */
  readonly until: () => Date | undefined;
}

/** Imports KEKs. */
export const Kek = {
  /** The length of a KEK: 256 random bits, never a password. */
  octets: 32,

  /**
   * Imports a KEK as non-extractable keys, one that wraps the keys of records and one that authenticates statements.
   * For a named signer both are derived from the octets and the signer's name.
   * @param octets {@link Kek.octets} octets from a random source. Their number is not checked.
   * @param signer The named signer whose records the KEK seals. Each signer has its own KEK, so that no record opens in
   *   the place of another signer's. If absent, the octets are the KEK.
   */
  async import(id: string, octets: Bytes, signer?: string): Promise<Kek> {
    const own =
      signer === undefined ? octets : await deriveOctets(octets, `rampart signer ${signer}`);
    // `unwrapKey` is for the provider of WebCrypto, `decrypt` for that of Node, which makes a KeyObject of the octets.
    const [key, statementKey] = await Promise.all([
      crypto.subtle.importKey("raw", own, "AES-GCM", false, ["wrapKey", "unwrapKey", "decrypt"]),
      deriveStatementKey(own),
    ]);
    return { id, key, statementKey };
  },
};

/** HKDF with SHA-256 (RFC 5869). It needs no salt, because the input is uniformly random. */
const hkdf = (purpose: string): HkdfParams => ({
  name: "HKDF",
  hash: "SHA-256",
  salt: new Uint8Array(),
  info: new TextEncoder().encode(purpose),
});

/** Derives other octets for a purpose, which reveal nothing of these. */
export async function deriveOctets(octets: Bytes, purpose: string): Promise<Bytes> {
  const base = await crypto.subtle.importKey("raw", octets, "HKDF", false, ["deriveBits"]);
  return new Uint8Array(await crypto.subtle.deriveBits(hkdf(purpose), base, 8 * Kek.octets));
}

async function deriveStatementKey(octets: Bytes): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey("raw", octets, "HKDF", false, ["deriveKey"]);
  return crypto.subtle.deriveKey(
    hkdf("rampart statement"),
    base,
    { name: "HMAC", hash: "SHA-256", length: 256 },
    false,
    ["sign", "verify"],
  );
}

/**
 * Finds the KEK that sealed a record, before the record opens. Requires that the record is stored under its own id and
 * is of this trust domain.
 *
 * @throws RecordError `id`, `trust-domain` or `kek`.
 */
export function sealingKek(
  head: Readonly<Record<"id" | "trustDomain" | "kek", string>>,
  stored: { readonly id: string },
  { trustDomain, keks }: Custodian,
): Kek {
  if (head.id !== stored.id) throw new RecordError("id", "stored under another id");
  if (head.trustDomain !== trustDomain) {
    throw new RecordError("trust-domain", "sealed for another trust domain");
  }
  const kek = keks.find(({ id }) => id === head.kek);
  if (!kek) throw new RecordError("kek", "sealed with a KEK that is not configured");
  return kek;
}

/**
 * Wraps a private key with a fresh 96-bit IV (NIST SP 800-38D §8.2.2).
 *
 * @param bound The purpose of the seal and every field in the clear: the key opens only with an equal value.
 */
export async function sealKey(key: CryptoKey, kek: Kek, bound: unknown): Promise<SealedKey> {
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const sealed = await crypto.subtle.wrapKey("pkcs8", key, kek.key, sealParameters(iv, bound));
  return { iv, sealedKey: new Uint8Array(sealed) };
}

/** Opens a private key for WebCrypto. @throws RecordError `seal` */
export async function openKey(
  { iv, sealedKey }: SealedKey,
  kek: Kek,
  bound: unknown,
  algorithm: ImportParameters,
  extractable: boolean,
): Promise<CryptoKey> {
  const parameters = sealParameters(iv, bound);
  return crypto.subtle
    .unwrapKey("pkcs8", sealedKey, kek.key, parameters, algorithm, extractable, ["sign"])
    .catch(refuseSeal);
}

/** AES-GCM with `bound` as JSON for its additional data. Different contents have different octets. */
export const sealParameters = (iv: Bytes, bound: unknown): SealParameters => ({
  name: "AES-GCM",
  iv,
  additionalData: new TextEncoder().encode(JSON.stringify(bound)),
});

/** Throws a RecordError `seal` with the error of the cipher as its cause. */
export function refuseSeal(error: unknown): never {
  throw new RecordError("seal", "the seal does not fit the record and the KEK", error);
}
