import { type Bytes, Hex } from "./encoding/bytes.ts";

/** The hashes that signatures are made over. Ed25519 has its own. */
export type HashName = "SHA-256" | "SHA-384" | "SHA-512";

/** The parameters with which WebCrypto imports a key. The platforms have different names for this type. */
export type ImportParameters =
  | { readonly name: string; readonly hash: HashName }
  | { readonly name: string; readonly namedCurve: string }
  | { readonly name: string };

/** One way to sign, as WebCrypto describes it. */
export interface SignatureScheme {
  readonly importParameters: ImportParameters;
  readonly signParameters:
    | string
    | { readonly name: string; readonly hash: HashName }
    | { readonly name: string; readonly saltLength: number };
  /** Absent where the message itself is signed: Ed25519 and ML-DSA. */
  readonly hash?: HashName;
  /** Octets of r and of s when the signature is ECDSA. */
  readonly scalarOctets?: number;
}

/** The length of a scalar of each curve in octets, and so of each half of an ECDSA signature in the IEEE P1363 form. */
export const scalarOctets = { "P-256": 32, "P-384": 48, "P-521": 66 } as const;

/** The curves of FIPS 186-5 that keys may lie on. */
type Curve = keyof typeof scalarOctets;

/** ECDSA with any of the hashes on any of the curves. */
export const ecdsa = (namedCurve: Curve, hash: HashName): SignatureScheme => ({
  importParameters: { name: "ECDSA", namedCurve },
  signParameters: { name: "ECDSA", hash },
  hash,
  scalarOctets: scalarOctets[namedCurve],
});

/** RSASSA-PSS (RFC 8017 §8.1) with a salt as long as the hash, which JWS demands (RFC 7518 §3.5). */
export const rsaPss = (hash: HashName): SignatureScheme => ({
  importParameters: { name: "RSA-PSS", hash },
  signParameters: { name: "RSA-PSS", saltLength: Number(hash.slice(4)) / 8 },
  hash,
});

/** The parameter sets of ML-DSA (FIPS 204). */
export type PostQuantumKey = "ML-DSA-44" | "ML-DSA-65" | "ML-DSA-87";

/** The kinds of key that Rampart certifies, by their names in logs and configuration. */
export type SubjectKeyAlgorithm =
  | "EC-P256"
  | "EC-P384"
  | "EC-P521"
  | "RSA"
  | "Ed25519"
  | PostQuantumKey;

/** Chooses the algorithm of a key. */
export const SignatureAlgorithm = {
  /** Whether a key's signatures are post-quantum, which no data plane verifies today. */
  isPostQuantum: (algorithm: SubjectKeyAlgorithm): algorithm is PostQuantumKey =>
    algorithm.startsWith("ML-DSA-"),

  /**
   * The algorithm with which an authority of this key signs: the hash follows the curve, RSA takes
   * SHA-256. Go's `x509.CreateCertificate`, and with it istiod, chooses the same.
   */
  of({ algorithm }: { readonly algorithm: SubjectKeyAlgorithm }): SignatureAlgorithm {
    const [sha256, sha384, sha512] = signatureAlgorithms[algorithm];
    const chosen = { "EC-P384": sha384, "EC-P521": sha512 }[algorithm as string] ?? sha256;
    if (!chosen) throw new Error(`no signature algorithm for ${algorithm}`);
    return chosen;
  },
};

/** One way to sign as X.509 names it. */
export interface SignatureAlgorithm extends SignatureScheme {
  readonly name: string;
  /**
   * The whole AlgorithmIdentifier: ECDSA and ML-DSA without parameters (RFC 5758 §3.2, RFC 9881 §2), RSA
   * with NULL (RFC 4055 §5).
   */
  readonly identifier: Bytes;
  /** The AlgorithmIdentifier without its NULL parameter, which verifiers have to accept as well (RFC 4055 §5). */
  readonly identifierWithoutNull?: Bytes;
  /** Octets of the signature where only one length is possible; workerd fails on every other length. */
  readonly signatureOctets?: number;
}

/** The algorithms that a key of each kind may sign with. SHA-1, MD5, DSA and PSS are not on the list. */
export const signatureAlgorithms: Record<SubjectKeyAlgorithm, readonly SignatureAlgorithm[]> = {
  "EC-P256": ellipticCurve("P-256"),
  "EC-P384": ellipticCurve("P-384"),
  "EC-P521": ellipticCurve("P-521"),
  RSA: [rsa("SHA-256", "0b"), rsa("SHA-384", "0c"), rsa("SHA-512", "0d")],
  Ed25519: [withoutDigest("Ed25519", "300506032b6570", 64)],
  "ML-DSA-44": [withoutDigest("ML-DSA-44", "300b0609608648016503040311", 2420)],
  "ML-DSA-65": [withoutDigest("ML-DSA-65", "300b0609608648016503040312", 3309)],
  "ML-DSA-87": [withoutDigest("ML-DSA-87", "300b0609608648016503040313", 4627)],
};

/** Signs the message itself: Ed25519 (RFC 8032 §5.1), or ML-DSA with an empty context (RFC 9881 §3). */
function withoutDigest(name: string, identifier: string, octets: number): SignatureAlgorithm {
  return {
    importParameters: { name },
    signParameters: name,
    name,
    identifier: Hex.parseLiteral(identifier),
    signatureOctets: octets,
  };
}

function ellipticCurve(namedCurve: Curve): SignatureAlgorithm[] {
  const withHash = (hash: HashName, lastArc: string): SignatureAlgorithm => ({
    ...ecdsa(namedCurve, hash),
    name: `ecdsa-with-${hash}`,
    identifier: Hex.parseLiteral(`300a06082a8648ce3d0403${lastArc}`),
  });
  return [withHash("SHA-256", "02"), withHash("SHA-384", "03"), withHash("SHA-512", "04")];
}

/** RSASSA-PKCS1-v1_5 (RFC 8017 §8.2). */
function rsa(hash: HashName, lastArc: string): SignatureAlgorithm {
  return {
    importParameters: { name: "RSASSA-PKCS1-v1_5", hash },
    signParameters: "RSASSA-PKCS1-v1_5",
    hash,
    name: `${hash}-with-rsa`,
    identifier: Hex.parseLiteral(`300d06092a864886f70d0101${lastArc}0500`),
    identifierWithoutNull: Hex.parseLiteral(`300b06092a864886f70d0101${lastArc}`),
  };
}

/**
 * How an ECDSA signature is encoded: `der` is the `SEQUENCE { r, s }` of X.509 (RFC 3279 §2.2.3),
 * `ieee-p1363` the `r || s` of WebCrypto and JWS.
 */
export type DsaEncoding = "der" | "ieee-p1363";
