import { JOSEError } from "jose/errors";
import { CompactSign } from "jose/jws/compact/sign";
import { compactVerify } from "jose/jws/compact/verify";
import { importJWK } from "jose/key/import";
import { rejectCredential } from "../../foundation/errors.ts";
import { parseJson } from "../../foundation/json.ts";
import type { Members } from "../../foundation/json-members.ts";
import { Base64 } from "../encoding/base64.ts";
import type { Bytes } from "../encoding/bytes.ts";
import type { JwsAlgorithm, KeySet } from "./key-set.ts";
import type { OpenTokenKey } from "./token-key.ts";

/** A JWS in the compact serialization (RFC 7515 §3.1), not verified yet. */
export interface JsonWebSignature {
  /** The token as its bearer sent it. */
  readonly compact: string;
  readonly algorithm: string;
  readonly keyId: string | undefined;
  /** The payload, which must be a JSON object. */
  readonly claims: Members;
  /** The length of the signature in bytes. */
  readonly signatureLength: number;
}

/** Parses, verifies and makes JSON Web Signatures in the compact form (RFC 7515 §7.1). */
export const JsonWebSignature = {
  /**
   * Parses a compact JWS, with the checks that jose leaves out. The three parts must be canonical base64url (RFC 7515 §4,
   * RFC 7519 §4); header and payload must be JSON objects without two members of one name.
   *
   * Refuses a header with an extension (`crit`, `b64`) or with another token's type (`typ`): RFC 7515 §4.1.11,
   * RFC 7797 §3, RFC 8725 §3.11. Ignores keys in a header. The caller bounds the length of the token.
   *
   * @param isType Whether a token may have this `typ`; by default `JWT` in upper or lower case.
   * @throws CaError `credential-rejected` (`form`).
   */
  parse(compact: string, isType: (typ: unknown) => boolean = isJwt): JsonWebSignature {
    const [header = "", payload = "", signature = "", ...more] = compact.split(".", 4);
    if (signature === "" || more.length > 0) throw rejectCredential("form", "not a compact JWS");
    const { alg, kid, typ, crit, b64 = true } = parseJsonObject(header);
    if (typeof alg !== "string") throw rejectCredential("form", "no algorithm in the token");
    if (kid !== undefined && typeof kid !== "string")
      throw rejectCredential("form", "kid not text");
    if (crit !== undefined) throw rejectCredential("form", "the token demands an extension");
    if (b64 !== true) throw rejectCredential("form", "the token's payload is not base64url");
    if (typ !== undefined && !isType(typ)) throw rejectCredential("form", "the token is no JWT");
    const claims = parseJsonObject(payload);
    const { length: signatureLength } = parsePart(signature);
    return { compact, algorithm: alg, keyId: kid, claims, signatureLength };
  },

  /**
   * Requires that a key of the issuer signed the token. A key that cannot be imported is skipped, and
   * the next candidate tried.
   *
   * @param keys Must return only keys that allow the algorithm of the token.
   * @throws CaError `credential-rejected` (`key`, `signature`), `key-provider-unreachable`.
   */
  async requireSignature(jws: JsonWebSignature, keys: KeySource, now: Date): Promise<void> {
    const candidates = await keys(jws, now);
    if (candidates.length === 0) {
      throw rejectCredential("key", "no key of the issuer fits the token's algorithm and key id");
    }
    let hasKey = false;
    for (const candidate of candidates) {
      const key = await importedKey(candidate, jws.algorithm as JwsAlgorithm);
      if (key && (await isSignedBy(jws, key))) return;
      hasKey ||= key !== undefined;
    }
    if (!hasKey) throw rejectCredential("key", "the issuer's key cannot be imported");
    throw rejectCredential("signature", "the token's signature is wrong");
  },

  /** Signs a JWT as a compact JWS: its header has `alg`, `kid` and `typ`, and nothing else. */
  sign({ id, algorithm, privateKey }: OpenTokenKey, claims: TokenClaims): Promise<string> {
    return new CompactSign(encoder.encode(JSON.stringify(claims)))
      .setProtectedHeader({ alg: algorithm, kid: id, typ: "JWT" })
      .sign(privateKey);
  },
};

function isJwt(typ: unknown): boolean {
  return typeof typ === "string" && typ.toUpperCase() === "JWT";
}

function parseJsonObject(part: string): Members {
  const value = jsonOf(parsePart(part));
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw rejectCredential("form", "a part of the token is not a JSON object");
  }
  return value as Members;
}

/** A buffer for one part at a time, longer than any token: each part is read before the next is decoded. */
const decoded = new Uint8Array(16 * 1024);

function parsePart(part: string): Bytes {
  const octets = Base64.parseUrl(part, decoded);
  if (!octets) throw rejectCredential("form", "the token is not base64url");
  return octets;
}

function jsonOf(octets: Bytes): unknown {
  try {
    return parseJson(octets);
  } catch (error) {
    // The parser's message quotes the token, so its error must not become the cause.
    const kind = error instanceof Error ? error.name : "error";
    throw rejectCredential(
      "form",
      `a part of the token is not JSON in UTF-8 with unique names (${kind})`,
    );
  }
}

/** Finds the keys that may have signed a token with this header. */
type KeySource = (
  query: Pick<JsonWebSignature, "algorithm" | "keyId">,
  now: Date,
) => readonly KeySet[number][] | Promise<readonly KeySet[number][]>;

/** Has values, not promises: on Workers, a request must not wait for the promise of another one. */
const importedKeys = new WeakMap<KeySet[number], Map<JwsAlgorithm, CryptoKey>>();

/**
 * Imports a key for an algorithm, and caches it.
 *
 * @returns `undefined` if it is no key of the algorithm, such as a point that is not on its curve.
 */
export async function importedKey(
  published: KeySet[number],
  algorithm: JwsAlgorithm,
): Promise<CryptoKey | undefined> {
  const known = importedKeys.get(published) ?? new Map<JwsAlgorithm, CryptoKey>();
  importedKeys.set(published, known);
  const key = known.get(algorithm) ?? (await importKey(published, algorithm));
  if (key) known.set(algorithm, key);
  return key;
}

async function importKey(
  { jwk }: KeySet[number],
  algorithm: JwsAlgorithm,
): Promise<CryptoKey | undefined> {
  try {
    // For RSA, EC and OKP, jose returns a CryptoKey.
    const key = (await importJWK(jwk, algorithm, { extractable: false })) as CryptoKey;
    return withOwnAttributes(key);
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
}

/**
 * Copies a key's attributes into read-only own properties. workerd computes them at each access, and jose reads them
 * eight times to verify a signature.
 */
function withOwnAttributes(key: CryptoKey): CryptoKey {
  const { algorithm, type, usages } = key;
  return Object.defineProperties(key, {
    algorithm: { value: algorithm },
    type: { value: type },
    usages: { value: usages },
    [Symbol.toStringTag]: { value: "CryptoKey" },
  });
}

async function isSignedBy(
  { compact, algorithm, signatureLength }: JsonWebSignature,
  key: CryptoKey,
): Promise<boolean> {
  if (!isOfModulusLength(signatureLength, key)) return false;
  try {
    await compactVerify(compact, key, { algorithms: [algorithm] });
    return true;
  } catch (error) {
    if (error instanceof JOSEError) return false;
    throw error;
  }
}

/**
 * Whether a signature is as long as the modulus of an RSA key (RFC 8017 §8.1.2, §8.2.2); `true` for other
 * keys. OpenSSL accepts a PSS signature without its leading zeros, too.
 */
function isOfModulusLength(signatureLength: number, { algorithm }: CryptoKey): boolean {
  if (!("modulusLength" in algorithm)) return true;
  return signatureLength === Math.ceil(Number(algorithm.modulusLength) / 8);
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
