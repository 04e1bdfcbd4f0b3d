import { importJWK } from "jose";
import * as z from "zod/mini";
import { cryptography } from "../../pki/cryptography.ts";
import { parseBase64Url } from "../../pki/encoding/base64.ts";
import { rsaKeyFault } from "../../pki/x509/subject-public-key.ts";
import { algorithmsOfKey, type JwsAlgorithm } from "./jws-algorithm.ts";

/** A public key of an issuer. */
export interface VerificationKey {
  readonly keyId: string | undefined;
  readonly algorithms: readonly JwsAlgorithm[];
  /** Its public members as JSON: equal for equal keys, whatever their key ids. */
  readonly material: string;
  /** The keys imported so far. */
  readonly opened: ReadonlyMap<JwsAlgorithm, CryptoKey>;
  /** Imports the key for one of its algorithms; rejects if its members are no valid key. */
  readonly open: (algorithm: JwsAlgorithm) => Promise<CryptoKey>;
}

/** The public keys of an issuer that Rampart can use. */
export type KeySet = readonly VerificationKey[];

/** A cluster publishes two or three keys. */
const maximumKeys = 32;

const text = z.optional(z.string());
const textUpTo = (length: number) => z.optional(z.string().check(z.maxLength(length)));

const jwkForm = z.object({
  kty: z.string(),
  kid: textUpTo(256),
  use: text,
  key_ops: z.optional(z.array(z.string())),
  alg: text,
  crv: text,
  n: textUpTo(2048),
  e: textUpTo(16),
  x: textUpTo(256),
  y: textUpTo(256),
});
type Jwk = z.infer<typeof jwkForm>;

const keySetForm = z.object({ keys: z.array(z.unknown()).check(z.maxLength(maximumKeys)) });

/**
 * The usable keys of a JWK Set. Keys of other kinds, uses and sizes are ignored (RFC 7517 §5). Private
 * members are never read.
 *
 * @returns `undefined` if the JSON is no JWK Set, or has no usable key.
 */
export function parseKeySet(json: unknown): KeySet | undefined {
  const parsed = keySetForm.safeParse(json);
  if (!parsed.success) return undefined;
  const keys = parsed.data.keys.flatMap((key) => {
    const jwk = jwkForm.safeParse(key);
    const algorithms = jwk.success ? algorithmsOf(jwk.data) : [];
    return jwk.success && algorithms.length > 0 ? [verificationKey(jwk.data, algorithms)] : [];
  });
  return keys.length > 0 ? keys : undefined;
}

/** The keys that may have signed a token: those of its algorithm and, if it names one, its key id. */
export function candidatesIn(
  keys: KeySet,
  algorithm: string,
  keyId: string | undefined,
): readonly VerificationKey[] {
  return keys.filter(
    (key) =>
      (keyId === undefined || key.keyId === keyId) &&
      key.algorithms.includes(algorithm as JwsAlgorithm),
  );
}

function algorithmsOf(jwk: Jwk): readonly JwsAlgorithm[] {
  if (jwk.use !== undefined && jwk.use !== "sig") return [];
  if (jwk.key_ops !== undefined && !jwk.key_ops.includes("verify")) return [];
  if (jwk.kty === "RSA" && !isStrongRsaKey(jwk)) return [];
  const ofKind = algorithmsOfKey[jwk.kty === "RSA" ? "RSA" : `${jwk.kty} ${jwk.crv}`] ?? [];
  return jwk.alg === undefined ? ofKind : ofKind.filter((algorithm) => algorithm === jwk.alg);
}

/** RFC 7518 §6.3.1: unsigned big-endian integers, without leading zeros. */
function isStrongRsaKey({ n = "", e = "" }: Jwk): boolean {
  const modulus = parseBase64Url(n);
  const exponent = parseBase64Url(e);
  if (!modulus || !exponent || modulus[0] === 0 || exponent[0] === 0) return false;
  return rsaKeyFault(modulus, exponent) === undefined;
}

function verificationKey(jwk: Jwk, algorithms: readonly JwsAlgorithm[]): VerificationKey {
  const { kty, crv, n, e, x, y } = jwk;
  const publicMembers = Object.fromEntries(
    Object.entries({ crv, n, e, x, y }).filter(([, value]) => value !== undefined),
  );
  const opened = new Map<JwsAlgorithm, CryptoKey>();
  const open = async (algorithm: JwsAlgorithm): Promise<CryptoKey> => {
    const known = opened.get(algorithm);
    if (known) return known;
    const key = await importJWK({ kty, ...publicMembers }, algorithm, {
      extractable: !cryptography.keepsKeys,
    });
    if (key instanceof Uint8Array) throw new Error("a symmetric key among the verification keys");
    opened.set(algorithm, key);
    return key;
  };
  const material = JSON.stringify({ kty, ...publicMembers });
  return { keyId: jwk.kid, algorithms, material, opened, open };
}
