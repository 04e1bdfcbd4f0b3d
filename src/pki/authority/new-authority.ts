import { OperatorError } from "../../foundation/errors.ts";
import type { SigningKey } from "../crypto-provider.ts";
import { type Bytes, Hex } from "../encoding/bytes.ts";
import { Oid } from "../encoding/object-identifiers.ts";
import { SerialNumber } from "../encoding/serial-number.ts";
import { type PostQuantumKey, SignatureAlgorithm } from "../signature-algorithm.ts";
import { toX509Signature } from "../signature-writer.ts";
import { SpiffeId, type TrustDomain } from "../spiffe-id.ts";
import { webSigningKey } from "../web-crypto.ts";
import { parseToBeSigned } from "../x509/certificate.ts";
import {
  certificateAndCrlSigning,
  extension,
  subjectAltUri,
} from "../x509/certificate-extensions.ts";
import { basicConstraints, intermediateSubject } from "../x509/intermediate.ts";
import { lintAndSign } from "../x509/leaf/certificate-signer.ts";
import type { Intent } from "../x509/leaf/internal/linted-certificate.ts";
import { type AuthorityFields, authorityToBeSigned } from "../x509/leaf/to-be-signed.ts";
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
    const { privateKey, spki } = await generateAuthorityKey(key);
    const publicKey = SubjectPublicKey.parse(spki);
    const validity = {
      notBefore: addSeconds(schedule.publishedFrom, -Validity.backdateSeconds),
      notAfter: schedule.retiresAt,
    };
    const signingKey = webSigningKey(privateKey, SignatureAlgorithm.of(publicKey));
    const certificate = await NewAuthority.selfSign(
      { trustDomain, publicKey, validity },
      signingKey,
    );
    const certificates = { certificate, intermediates: [], roots: [certificate] };
    return {
      authority: await SigningAuthority.create(certificates, schedule),
      extractablePrivateKey: privateKey,
    };
  },

  /**
   * Lints and signs the certificate of an authority that is its own root. The key may be in a key service.
   * @throws Error if the bytes break a clause.
   */
  async selfSign(
    root: Pick<AuthorityFields, "trustDomain" | "publicKey" | "validity">,
    signingKey: SigningKey,
  ): Promise<Bytes> {
    const fields: AuthorityFields = {
      ...root,
      keyIdentifier: SubjectPublicKey.keyIdentifier(root.publicKey),
      serialNumber: SerialNumber.random(),
      signatureAlgorithm: signingKey.algorithm,
    };
    const toBeSigned = authorityToBeSigned(fields);
    const intent: Intent = {
      kind: "authority",
      spiffeId: SpiffeId.ofTrustDomain(fields.trustDomain),
      publicKey: fields.publicKey,
      keyIdentifier: fields.keyIdentifier,
      validity: fields.validity,
      issuer: {
        signatureAlgorithm: fields.signatureAlgorithm.identifier,
        name: parseToBeSigned(toBeSigned).subject,
        validity: fields.validity,
        keyIdentifier: undefined,
      },
    };
    return lintAndSign(toBeSigned, intent, signingKey);
  },
};

/** Makes a key for an authority. The private key can be exported: seal it, then drop it. */
async function generateAuthorityKey(
  key: AuthorityKey,
): Promise<{ readonly privateKey: CryptoKey; readonly spki: Bytes }> {
  const { privateKey, publicKey } = await generatePair(key);
  const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
  return { privateKey, spki };
}

/** @throws OperatorError on a platform without the algorithm. */
async function generatePair(key: AuthorityKey): Promise<CryptoKeyPair> {
  try {
    const made = await crypto.subtle.generateKey(generation[key], true, ["sign", "verify"]);
    return made as CryptoKeyPair;
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
    const { privateKey, spki } = await generateAuthorityKey(key);
    const publicKey = SubjectPublicKey.parse(spki);
    const id = Hex.format(SubjectPublicKey.keyIdentifier(publicKey));
    const info = CertificationRequest.info(intermediateSubject(trustDomain, id), spki, [
      extension(Oid.basicConstraints, true, basicConstraints(0)),
      certificateAndCrlSigning,
      subjectAltUri(SpiffeId.ofTrustDomain(trustDomain), false),
    ]);
    const algorithm = SignatureAlgorithm.of(publicKey);
    const raw = new Uint8Array(await webSigningKey(privateKey, algorithm).sign(info));
    const { scalarOctets } = algorithm;
    const signature = scalarOctets === undefined ? raw : toX509Signature(raw, scalarOctets);
    const csr = CertificationRequest.signed(info, algorithm.identifier, signature);
    return { id, publicKey, extractablePrivateKey: privateKey, csr };
  },
};
