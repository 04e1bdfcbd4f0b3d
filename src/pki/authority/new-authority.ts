import { OperatorError } from "../../foundation/errors.ts";
import type { SigningKey } from "../crypto-provider.ts";
import { type Bytes, Hex } from "../encoding/bytes.ts";
import { Oid } from "../encoding/object-identifiers.ts";
import { SerialNumber } from "../encoding/serial-number.ts";
import { type PostQuantumKey, SignatureAlgorithm } from "../signature-algorithm.ts";
import { SpiffeId, type TrustDomain } from "../spiffe-id.ts";
import { webSigningKey } from "../web-crypto.ts";
import { parseToBeSigned } from "../x509/certificate.ts";
import { extension, subjectAltUri } from "../x509/certificate-extensions.ts";
import { signStructure } from "../x509/certificate-signature.ts";
import { basicConstraints, intermediateSubject } from "../x509/intermediate.ts";
import { lintAndSign } from "../x509/leaf/certificate-signer.ts";
import {
  type AuthorityFields,
  authorityToBeSigned,
  certificateAndCrlSigning,
} from "../x509/leaf/to-be-signed.ts";
import { CertificationRequest } from "../x509/request-to-be-signed.ts";
import { SubjectPublicKey } from "../x509/subject-public-key.ts";
import { addSeconds, Validity } from "../x509/validity.ts";
import type { Schedule } from "./schedule.ts";
import { SigningAuthority } from "./signing-authority.ts";

/** The kinds of key that a new authority may have. */
export type AuthorityKey = "EC-P256" | "EC-P384" | "RSA-2048" | "RSA-4096" | PostQuantumKey;

const generation: Readonly<
  Record<AuthorityKey, EcKeyGenParams | RsaHashedKeyGenParams | Algorithm>
> = {
  "EC-P256": { name: "ECDSA", namedCurve: "P-256" },
  "EC-P384": { name: "ECDSA", namedCurve: "P-384" },
  "RSA-2048": rsa(2048),
  "RSA-4096": rsa(4096),
  "ML-DSA-44": { name: "ML-DSA-44" },
  "ML-DSA-65": { name: "ML-DSA-65" },
  "ML-DSA-87": { name: "ML-DSA-87" },
};

function rsa(modulusLength: number): RsaHashedKeyGenParams {
  const publicExponent = new Uint8Array([1, 0, 1]);
  return { name: "RSASSA-PKCS1-v1_5", modulusLength, publicExponent, hash: "SHA-256" };
}

/** A new authority with the only copy of its key that can be exported. Seal it, then drop it. */
export interface NewAuthority {
  readonly authority: SigningAuthority;
  readonly extractablePrivateKey: CryptoKey;
}

/** Makes authorities with their private keys. */
export const NewAuthority = {
  /**
   * Makes a self-signed authority of a trust domain. Its certificate is valid from two minutes before its
   * publication, for peers whose clocks are behind, until it retires.
   *
   * @throws OperatorError on a platform without the algorithm of `key`.
   */
  async create(
    trustDomain: TrustDomain,
    key: AuthorityKey,
    schedule: Schedule,
  ): Promise<NewAuthority> {
    const { privateKey, publicKey } = await generateAuthorityKey(key);
    const validity = {
      notBefore: addSeconds(schedule.publishedFrom, -Validity.backdateSeconds),
      notAfter: schedule.retiresAt,
    };
    const signingKey = webSigningKey(privateKey, SignatureAlgorithm.of(publicKey));
    const root = { trustDomain, publicKey, validity };
    const certificate = await NewAuthority.selfSign(root, signingKey);
    const certificates = { certificate, intermediates: [], roots: [certificate] };
    const authority = await SigningAuthority.create(certificates, schedule);
    return { authority, extractablePrivateKey: privateKey };
  },

  /**
   * Lints and signs the certificate of an authority that is its own root. The key may be in a key service.
   * @throws Error if the bytes break a clause.
   */
  async selfSign(
    root: Pick<AuthorityFields, "trustDomain" | "publicKey" | "validity">,
    signingKey: SigningKey,
  ): Promise<Bytes> {
    const signatureAlgorithm = signingKey.algorithm.identifier;
    const own = { ...root, keyIdentifier: SubjectPublicKey.keyIdentifier(root.publicKey) };
    const serialNumber = SerialNumber.random();
    const toBeSigned = authorityToBeSigned({ ...own, serialNumber, signatureAlgorithm });
    const issuer = {
      signatureAlgorithm,
      name: parseToBeSigned(toBeSigned).subject,
      validity: root.validity,
      keyIdentifier: undefined,
    };
    const spiffeId = SpiffeId.ofTrustDomain(root.trustDomain);
    return lintAndSign(toBeSigned, { kind: "authority", spiffeId, ...own, issuer }, signingKey);
  },
};

/**
 * Makes a key for an authority. The private key can be exported: seal it, then drop it.
 * @throws OperatorError on a platform without the algorithm.
 */
async function generateAuthorityKey(
  key: AuthorityKey,
): Promise<{ readonly privateKey: CryptoKey; readonly publicKey: SubjectPublicKey }> {
  try {
    const made = await crypto.subtle.generateKey(generation[key], true, ["sign", "verify"]);
    const { privateKey, publicKey } = made as CryptoKeyPair;
    const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
    return { privateKey, publicKey: SubjectPublicKey.parse(spki) };
  } catch (error) {
    const isUnknown = error instanceof DOMException && error.name === "NotSupportedError";
    if (!isUnknown) throw error;
    throw new OperatorError(
      `this platform has no ${key}: a Worker needs the compatibility flag webcrypto_modern_algorithms, Node OpenSSL 3.5`,
    );
  }
}

/** A request for an intermediate, with the only copy of its key that can be exported. */
export interface IntermediateRequest {
  /** The id of the authority to be: its key identifier in hexadecimal. */
  readonly id: string;
  readonly publicKey: SubjectPublicKey;
  readonly extractablePrivateKey: CryptoKey;
  /** PKCS#10 (RFC 2986), DER. */
  readonly csr: Bytes;
}

/** Makes requests for intermediates of another CA. */
export const IntermediateRequest = {
  /**
   * Makes a key and a CSR for an intermediate of a trust domain. The CSR asks for what an import demands: path
   * length 0, keyCertSign and cRLSign, and the trust domain as its SPIFFE ID.
   *
   * @throws OperatorError on a platform without the algorithm of `key`.
   */
  async create(trustDomain: TrustDomain, key: AuthorityKey): Promise<IntermediateRequest> {
    const { privateKey, publicKey } = await generateAuthorityKey(key);
    const id = Hex.format(SubjectPublicKey.keyIdentifier(publicKey));
    const subject = intermediateSubject(trustDomain, id);
    const info = CertificationRequest.info(subject, publicKey.spki, [
      extension(Oid.basicConstraints, true, basicConstraints(0)),
      certificateAndCrlSigning,
      subjectAltUri(SpiffeId.ofTrustDomain(trustDomain), false),
    ]);
    const signingKey = webSigningKey(privateKey, SignatureAlgorithm.of(publicKey));
    // A request is put together as a certificate is (RFC 2986 §4.2).
    const csr = await signStructure(info, signingKey);
    return { id, publicKey, extractablePrivateKey: privateKey, csr };
  },
};
