import * as z from "zod/mini";
import { Base64 } from "../encoding/base64.ts";
import { rsaKeyFault } from "../x509/subject-public-key.ts";

/** The signature algorithms that a token may use (RFC 7518 §3.1, RFC 8037 §3.1): neither `none` nor a symmetric one. */
export type JwsAlgorithm = `${"RS" | "PS" | "ES"}${256 | 384 | 512}` | "EdDSA";

/**
 * The algorithms that a key may verify, by its `kty` and, if it has one, its `crv`. The key decides,
 * never the token (RFC 8725 §3.1).
 */
const algorithmsOfKey: ReadonlyMap<string, readonly JwsAlgorithm[]> = new Map([
  ["RSA", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]],
  ["EC P-256", ["ES256"]],
  ["EC P-384", ["ES384"]],
  ["EC P-521", ["ES512"]],
  ["OKP Ed25519", ["EdDSA"]],
]);

/** A public key as an issuer publishes it. */
interface PublishedKey {
  readonly keyId: string | undefined;
  readonly algorithms: readonly JwsAlgorithm[];
  /** Its public members, and no other. */
  readonly jwk: JsonWebKey;
  /** These members as JSON text: equal for equal keys, whatever their key ids. */
  readonly material: string;
}

/** The public keys of an issuer that Rampart can use. */
export type KeySet = readonly PublishedKey[];

/** A JWK Set, with its keys separated into usable and unusable ones. */
export interface JudgedKeySet {
  readonly usable: KeySet;
  /** The keys for signatures that Rampart cannot use: of each the beginning of its id or `-`, and why. */
  readonly unusable: readonly string[];
}

/** A cluster publishes two or three keys, and a cloud up to 100. */
const maximumKeys = 100;

const text = z.optional(z.string());
const textUpTo = (length: number) => z.optional(z.string().check(z.maxLength(length)));

const jwkSchema = z.object({
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
type Jwk = z.infer<typeof jwkSchema>;

const keySetSchema = z.object({ keys: z.array(z.unknown()).check(z.maxLength(maximumKeys)) });

/** The keys of a JWK Set; none of anything else. */
const keysIn = (json: unknown): readonly unknown[] => keySetSchema.safeParse(json).data?.keys ?? [];

/** Parses JWK Sets, and finds keys in them. */
export const KeySet = {
  /**
   * The usable keys of a JWK Set. Keys of other kinds, uses and sizes are ignored (RFC 7517 §5). Private
   * members are never read.
   *
   * @returns `undefined` if the JSON is no JWK Set, has more than 100 keys, or has no usable key.
   */
  parse(json: unknown): KeySet | undefined {
    const keys = keysIn(json).flatMap((key) => KeySet.usable(key) ?? []);
    return keys.length > 0 ? keys : undefined;
  },

  /** Why {@link KeySet.parse} finds no key in this JSON, as the end of a sentence. */
  fault(json: unknown): string {
    const { keys } = Object(json) as { readonly keys?: unknown };
    if (!Array.isArray(keys)) return "no JWK Set";
    return keys.length > maximumKeys
      ? `a JWK Set of ${keys.length} keys, of ${maximumKeys} at most`
      : "a JWK Set without a usable key for signatures";
  },

  /** A key with which a token can be verified; `undefined` for every other JSON value. */
  usable(json: unknown): PublishedKey | undefined {
    const { data: jwk } = jwkSchema.safeParse(json);
    const algorithms = jwk ? algorithmsOf(jwk) : [];
    return jwk && algorithms.length > 0 ? publishedKey(jwk, algorithms) : undefined;
  },

  /**
   * The keys of a JWK Set that are for signatures and with which no token can be verified. Keys for another use are
   * left out, and anything but a JWK Set has none.
   */
  unusable(json: unknown): readonly string[] {
    return keysIn(json).flatMap((key) => {
      const { data: jwk } = jwkSchema.safeParse(key);
      const fault = jwk ? keyFault(jwk) : "it is no JWK";
      return fault === undefined ? [] : [`${jwk?.kid?.slice(0, 12) ?? "-"}: ${fault}`];
    });
  },

  /** The keys that may have signed a token: those of its algorithm and, if it names one, its key id; 32 at most. */
  candidates<Key extends PublishedKey>(
    keys: readonly Key[],
    algorithm: string,
    keyId: string | undefined,
  ): readonly Key[] {
    return keys
      .filter((key) => keyId === undefined || key.keyId === keyId)
      .filter((key) => key.algorithms.includes(algorithm as JwsAlgorithm))
      .slice(0, maximumCandidates);
  },
};

/** The most keys that are tried for one token. A token of an issuer with more keys has to name one. */
const maximumCandidates = 32;

function algorithmsOf(jwk: Jwk): readonly JwsAlgorithm[] {
  if (!isForSignatures(jwk)) return [];
  if (jwk.kty === "RSA" && !isStrongRsaKey(jwk)) return [];
  const ofKind = algorithmsOfKey.get(kindOf(jwk)) ?? [];
  return jwk.alg === undefined ? ofKind : ofKind.filter((algorithm) => algorithm === jwk.alg);
}

/** Whether a key may verify signatures. In a SPIFFE bundle, the keys of tokens have a use of their own (JWT-SVID §4). */
const isForSignatures = ({ use = "sig", key_ops = ["verify"] }: Jwk): boolean =>
  (use === "sig" || use === "jwt-svid") && key_ops.includes("verify");

const kindOf = ({ kty, crv }: Jwk): string =>
  kty === "RSA" || crv === undefined ? kty : `${kty} ${crv}`;

function keyFault(jwk: Jwk): string | undefined {
  if (!isForSignatures(jwk) || algorithmsOf(jwk).length > 0) return undefined;
  const kind = kindOf(jwk);
  if (!algorithmsOfKey.has(kind)) return `a key of the kind ${kind} is not supported`;
  if (kind === "RSA" && !isStrongRsaKey(jwk)) {
    return "RSA takes 2048 to 4096 bits and the exponent 65537";
  }
  return `a key of the kind ${kind} cannot have the algorithm ${jwk.alg}`;
}

/** Whether the size and the exponent are acceptable. Both members are big-endian, without leading zeros (RFC 7518 §6.3.1). */
function isStrongRsaKey({ n = "", e = "" }: Jwk): boolean {
  const modulus = Base64.parseUrl(n);
  const exponent = Base64.parseUrl(e);
  if (!modulus || !exponent || modulus[0] === 0 || exponent[0] === 0) return false;
  return rsaKeyFault(modulus, exponent) === undefined;
}

function publishedKey(
  { kid: keyId, kty, crv, n, e, x, y }: Jwk,
  algorithms: readonly JwsAlgorithm[],
): PublishedKey {
  const members = Object.entries({ kty, crv, n, e, x, y });
  const jwk = Object.fromEntries(members.filter(([, value]) => value !== undefined));
  return { keyId, algorithms, jwk, material: JSON.stringify(jwk) };
}
