import { OperatorError } from "../../foundation/errors.ts";
import { selfSign } from "../../pki/authority/new-authority.ts";
import type { SigningKey } from "../../pki/crypto-provider.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { isSelfIssued, parseCaCertificate } from "../../pki/path/certification-path.ts";
import { signatureAlgorithmOf } from "../../pki/signature-algorithm.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { isSignedByKey } from "../../pki/x509/certificate-signature.ts";
import { readRequestedKey } from "../../pki/x509/certificate-signing-request.ts";
import { issueIntermediate } from "../../pki/x509/intermediate.ts";
import { createCertificateSigner } from "../../pki/x509/leaf/certificate-signer.ts";
import { parseSubjectPublicKey, type SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { addSeconds, backdateSeconds, earlier, wholeSeconds } from "../../pki/x509/validity.ts";
import { KeyServiceError, type ServiceKey } from "./key-service.ts";

/** A root whose key a service holds: one key, or several of one multi-region key. */
export interface ServiceRoot {
  readonly keys: readonly ServiceKey[];
  /** The certificate of the key first, then what is between it and its own root, if somebody else signed it. */
  readonly certificates: readonly Bytes[];
  readonly trustDomain: TrustDomain;
  readonly clock: () => Date;
}

/** An intermediate that this CA asks its root for. */
interface IntermediateAsked {
  /** PKCS#10, DER. */
  readonly csr: Bytes;
  readonly lifetimeSeconds: number;
}

/** Its certificates, DER, as a CA upstream answers them. */
interface Certified {
  readonly chain: readonly Bytes[];
  readonly roots: readonly Bytes[];
}

/**
 * Writes and lints an intermediate here, has the service sign it, and verifies the signature by the public key
 * that the root's certificate pins. Nothing that the service says becomes part of a certificate unverified.
 *
 * @throws KeyServiceError
 */
export async function certifyBelow(
  { keys, certificates, trustDomain, clock }: ServiceRoot,
  { csr, lifetimeSeconds }: IntermediateAsked,
): Promise<Certified> {
  const parsed = certificates.map((der, i) => parseCaCertificate(der, `root ${i + 1}`));
  const [root, ...above] = parsed;
  if (!root) throw new Error("a root without a certificate");
  const now = wholeSeconds(clock());
  const notAfter = earlier(addSeconds(now, lifetimeSeconds), root.toBeSigned.validity.notAfter);
  if (notAfter <= now) throw new KeyServiceError("has a root that has expired: make a new one");
  const signingKey = signingKeyOf(keys, root.publicKey);
  const { der } = await issueIntermediate(
    createCertificateSigner(root, root.publicKey, signingKey),
    {
      rights: { trustDomain, pathLength: 0, isConstrained: false },
      publicKey: readRequestedKey(csr),
      validity: { notBefore: addSeconds(now, -backdateSeconds), notAfter },
    },
  );
  const chain = [root, ...above].filter((each) => !isSelfIssued(each)).map((each) => each.der);
  const roots = parsed.filter(isSelfIssued).map((each) => each.der);
  return { chain: [der, ...chain], roots };
}

/** Makes the certificate of a root, which its own key in a service signs. @throws KeyServiceError */
export async function createServiceRoot(
  key: ServiceKey,
  trustDomain: TrustDomain,
  lifetimeSeconds: number,
  now: Date,
): Promise<Bytes> {
  const publicKey = parseSubjectPublicKey(await key.publicKey());
  const from = wholeSeconds(now);
  const validity = {
    notBefore: addSeconds(from, -backdateSeconds),
    notAfter: addSeconds(from, lifetimeSeconds),
  };
  return selfSign({ trustDomain, publicKey, validity }, signingKeyOf([key], publicKey));
}

const kinds: readonly string[] = ["EC-P256", "EC-P384", "RSA"];

/** A key that signs in its service. Each signature is verified before anybody gets it. */
function signingKeyOf(keys: readonly ServiceKey[], publicKey: SubjectPublicKey): SigningKey {
  if (!kinds.includes(publicKey.algorithm))
    throw new OperatorError("a root in a key service takes a key of EC P-256, EC P-384 or RSA");
  const algorithm = signatureAlgorithmOf(publicKey);
  const signWith = async (key: ServiceKey, bytes: Bytes): Promise<Bytes> => {
    const signature = await key.sign(bytes, algorithm);
    const toBeSigned = { signatureAlgorithm: algorithm.identifier };
    if (await isSignedByKey({ toBeSigned, signedBytes: bytes, signature }, publicKey))
      return signature;
    throw new KeyServiceError("signed with another key than the one of the root's certificate");
  };
  return {
    algorithm,
    dsaEncoding: "der",
    sign: async (bytes) => {
      const faults: string[] = [];
      for (const key of keys) {
        try {
          return (await signWith(key, bytes)).slice().buffer;
        } catch (error) {
          if (!(error instanceof KeyServiceError)) throw error;
          faults.push(`${key.uri} ${error.message}`);
        }
      }
      throw new KeyServiceError(faults.join("; "));
    },
  };
}
