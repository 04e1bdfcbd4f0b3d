import {
  generateKeyPairSync,
  type KeyObject,
  type KeyPairKeyObjectResult,
  sign,
} from "node:crypto";
import { type Change, der, extension, hex, type Octets } from "../der/mutation.ts";

/** The AlgorithmIdentifiers of signatures (RFC 3279, RFC 4055, RFC 5758, RFC 8410). */
export const signatureIdentifier = {
  "ecdsa-with-SHA1": hex("300906072a8648ce3d0401"),
  "ecdsa-with-SHA224": hex("300a06082a8648ce3d040301"),
  "ecdsa-with-SHA256": hex("300a06082a8648ce3d040302"),
  "ecdsa-with-SHA384": hex("300a06082a8648ce3d040303"),
  "ecdsa-with-SHA512": hex("300a06082a8648ce3d040304"),
  md5WithRSAEncryption: hex("300d06092a864886f70d0101040500"),
  sha1WithRSAEncryption: hex("300d06092a864886f70d0101050500"),
  sha224WithRSAEncryption: hex("300d06092a864886f70d01010e0500"),
  sha256WithRSAEncryption: hex("300d06092a864886f70d01010b0500"),
  sha384WithRSAEncryption: hex("300d06092a864886f70d01010c0500"),
  sha512WithRSAEncryption: hex("300d06092a864886f70d01010d0500"),
  "RSASSA-PSS with SHA-256": hex(
    "304106092a864886f70d01010a3034a00f300d06096086480165030402010500a11c301a06092a864886f70d010108300d06096086480165030402010500a203020120",
  ),
  Ed25519: hex("300506032b6570"),
  "ML-DSA-44": hex("300b0609608648016503040311"),
  "ML-DSA-65": hex("300b0609608648016503040312"),
  "ML-DSA-87": hex("300b0609608648016503040313"),
} as const;

export type SignatureName = keyof typeof signatureIdentifier;

/** The sender of a CSR: a key of `node:crypto` and its signature algorithm. */
export interface CsrSigner {
  readonly privateKey: KeyObject;
  /** SubjectPublicKeyInfo. */
  readonly spki: Octets;
  readonly algorithm: SignatureName;
  /** `null` for Ed25519, which has a hash of its own. */
  readonly hash: string | null;
}

const generate = {
  "EC-P256": () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
  "EC-P384": () => generateKeyPairSync("ec", { namedCurve: "P-384" }),
  "EC-P521": () => generateKeyPairSync("ec", { namedCurve: "P-521" }),
  "RSA-2048": () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
  "RSA-3072": () => generateKeyPairSync("rsa", { modulusLength: 3072 }),
  Ed25519: () => generateKeyPairSync("ed25519"),
};

export type SignerKind = keyof typeof generate;

const made = new Map<SignerKind, KeyPairKeyObjectResult>();

/** A new key; of RSA, whose keys are slow to find, one that was made before. */
export function generateSigner(kind: SignerKind): CsrSigner {
  const pair = made.get(kind) ?? generate[kind]();
  if (kind.startsWith("RSA")) made.set(kind, pair);
  const { privateKey, publicKey } = pair;
  const spki = Buffer.from(publicKey.export({ type: "spki", format: "der" }));
  if (kind === "Ed25519") return { privateKey, spki, algorithm: "Ed25519", hash: null };
  const algorithm = kind.startsWith("EC") ? "ecdsa-with-SHA256" : "sha256WithRSAEncryption";
  return { privateKey, spki, algorithm, hash: "sha256" };
}

/** Departures from a valid CSR. */
export interface CsrDepartures {
  readonly spki?: Octets;
  readonly subject?: Octets;
  readonly attributes?: Octets;
  /** The AlgorithmIdentifier of the signature. */
  readonly identifier?: Octets;
  /** Changes the CertificationRequestInfo before it is signed. */
  readonly info?: Change;
  readonly signature?: Change;
  /** Changes the whole request after it was signed. */
  readonly request?: Change;
}

/** The subject of pilot-agent: an empty `O=`. */
const pilotAgentSubject: Octets = hex("300b31093007060355040a1300");

/** An extensionRequest with one critical SAN of one URI. Every Istio client sends one. */
export const requestedUri = (uri: string): Octets =>
  der(
    0xa0,
    attribute(
      "2a864886f70d01090e",
      der(0x30, extension("551d11", true, der(0x30, der(0x86, Buffer.from(uri, "latin1"))))),
    ),
  );

const attribute = (oid: string, value: Octets): Octets =>
  der(0x30, der(0x06, hex(oid)), der(0x31, value));

const same: Change = (element) => element;

/** Builds a CSR (PKCS#10, RFC 2986), DER. It applies `info` before signing and `request` after. */
export function buildCsr(signer: CsrSigner, departures: CsrDepartures = {}): Octets {
  const { spki = signer.spki, info = same, signature = same, request = same } = departures;
  const signed = info(
    der(
      0x30,
      hex("020100"),
      departures.subject ?? pilotAgentSubject,
      spki,
      departures.attributes ?? requestedUri("spiffe://cluster.local/ns/foo/sa/bar"),
    ),
  );
  return request(
    der(
      0x30,
      signed,
      departures.identifier ?? signatureIdentifier[signer.algorithm],
      der(0x03, hex("00"), signature(sign(signer.hash, signed, signer.privateKey))),
    ),
  );
}

/** PEM with 64 symbols a line. */
export function csrPem(request: Uint8Array, label = "CERTIFICATE REQUEST"): string {
  const lines = Buffer.from(request)
    .toString("base64")
    .match(/.{1,64}/g);
  return [`-----BEGIN ${label}-----`, ...(lines ?? []), `-----END ${label}-----`, ""].join("\n");
}
