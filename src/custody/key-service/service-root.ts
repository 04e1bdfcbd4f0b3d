import { NewAuthority } from "../../pki/authority/new-authority.ts";
import type { SigningKey } from "../../pki/crypto-provider.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { CaCertificate } from "../../pki/path/certification-path.ts";
import { SignatureAlgorithm } from "../../pki/signature-algorithm.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { Certificate } from "../../pki/x509/certificate.ts";
import { isSignedByKey } from "../../pki/x509/certificate-signature.ts";
import { CertificateSigningRequest } from "../../pki/x509/certificate-signing-request.ts";
import { Intermediate } from "../../pki/x509/intermediate.ts";
import { CertificateSigner } from "../../pki/x509/leaf/certificate-signer.ts";
import { authorityName } from "../../pki/x509/leaf/to-be-signed.ts";
import type { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { addSeconds, earlier, Validity, wholeSeconds } from "../../pki/x509/validity.ts";
import { firstOf, KeyServiceError, type ServiceKey } from "./key-service.ts";

/** A root whose key a service holds: one key, or several of one multi-region key. */
export interface ServiceRoot {
  readonly keys: readonly ServiceKey[];
  /** The certificate of the key. If another CA signed it, the certificates above it follow, without their root. */
  readonly certificates: readonly Bytes[];
  readonly trustDomain: TrustDomain;
  readonly clock: () => Date;
}

/** An intermediate that this CA requests of its root. */
interface IntermediateAsked {
  /** PKCS#10, DER. */
  readonly csr: Bytes;
  readonly lifetimeSeconds: number;
  /** The roots of the store, DER. A renewal of the configured root may be among them. */
  readonly knownRoots?: readonly Bytes[];
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
 * If the root would end before the successor of this intermediate does, the root is renewed first, under its own key and
 * name. No intermediate outlives its root.
 *
 * @throws KeyServiceError for a root that has expired, and if none of its keys signs.
 */
export async function certifyBelow(
  service: ServiceRoot,
  { csr, lifetimeSeconds, knownRoots = [] }: IntermediateAsked,
): Promise<Certified> {
  const { keys, certificates, trustDomain, clock } = service;
  const [configured, ...above] = parseAll(certificates);
  const now = wholeSeconds(clock());
  const latest = await latestOf(configured, knownRoots);
  const root = await renewedIfDue(service, latest, lifetimeSeconds, now);
  const notAfter = earlier(addSeconds(now, lifetimeSeconds), root.toBeSigned.validity.notAfter);
  if (notAfter <= now) throw new KeyServiceError("has a root that has expired: make a new one");
  const { der } = await Intermediate.issue(signerOf(keys, root), {
    rights: { trustDomain, pathLength: 0, isConstrained: false },
    publicKey: CertificateSigningRequest.readKey(csr),
    validity: { notBefore: addSeconds(now, -Validity.backdateSeconds), notAfter },
  });
  const others = [root, ...above];
  const chain = others.filter((each) => !CaCertificate.isSelfIssued(each)).map((each) => each.der);
  return {
    chain: [der, ...chain],
    roots: others.filter(CaCertificate.isSelfIssued).map((each) => each.der),
  };
}

function parseAll(certificates: readonly Bytes[]): [CaCertificate, ...CaCertificate[]] {
  const [root, ...above] = certificates.map((der, i) => CaCertificate.parse(der, `root ${i + 1}`));
  if (!root) throw new Error("a root without a certificate");
  return [root, ...above];
}

/** Creates the signer of a root's CRLs. */
export function serviceRootSigner({
  keys,
  certificates,
}: Pick<ServiceRoot, "keys" | "certificates">): CertificateSigner {
  return signerOf(keys, parseAll(certificates)[0]);
}

const signerOf = (keys: readonly ServiceKey[], root: CaCertificate): CertificateSigner =>
  CertificateSigner.create(root, root.publicKey, signingKeyOf(keys, root.publicKey));

/** The configured root, or its latest renewal among the known roots. */
async function latestOf(
  configured: CaCertificate,
  knownRoots: readonly Bytes[],
): Promise<CaCertificate> {
  let latest = configured;
  for (const der of knownRoots) {
    const { spki, validity } = Certificate.parse(der).toBeSigned;
    const isLater = validity.notBefore > latest.toBeSigned.validity.notBefore;
    if (!isLater || !Bytes.equal(spki, configured.publicKey.spki)) continue;
    const known = CaCertificate.parse(der, "a root of the store");
    if (await CaCertificate.isIssuedBy(known, configured)) latest = known;
  }
  return latest;
}

/**
 * Renews the root before it is too old for a new intermediate. A root that another CA signed or named is left as it
 * is, because only its maker can renew it.
 */
async function renewedIfDue(
  { keys, trustDomain }: ServiceRoot,
  root: CaCertificate,
  lifetimeSeconds: number,
  now: Date,
): Promise<CaCertificate> {
  const { subject, validity } = root.toBeSigned;
  const isOwn =
    CaCertificate.isSelfIssued(root) && Bytes.equal(subject, authorityName(trustDomain));
  if (!isOwn || !isRenewalDue(validity, lifetimeSeconds, now)) return root;
  const own = { trustDomain, lifetimeSeconds: lifeOf(validity), now };
  return CaCertificate.parse(await rootFor(keys, root.publicKey, own), "the renewed root");
}

const lifeOf = ({ notBefore, notAfter }: Validity): number =>
  (notAfter.getTime() - notBefore.getTime()) / 1000;

/** Whether a root has less time left than two intermediates live. `false` if its whole validity is not longer than that. */
export function isRenewalDue(validity: Validity, lifetimeSeconds: number, now: Date): boolean {
  const leastSeconds = 2 * lifetimeSeconds;
  return lifeOf(validity) > leastSeconds && addSeconds(now, leastSeconds) > validity.notAfter;
}

/**
 * Makes a self-signed root certificate for a key that signs in its service. Its validity begins before `now` by the
 * usual backdate.
 * @param keys The key in each place of the service: the first that signs is used.
 * @throws KeyServiceError if the key is of a type that no root may have, or no place signs with it.
 */
export function rootFor(
  keys: readonly ServiceKey[],
  publicKey: SubjectPublicKey,
  {
    trustDomain,
    lifetimeSeconds,
    now,
  }: { readonly trustDomain: TrustDomain; readonly lifetimeSeconds: number; readonly now: Date },
): Promise<Bytes> {
  const from = wholeSeconds(now);
  const validity = {
    notBefore: addSeconds(from, -Validity.backdateSeconds),
    notAfter: addSeconds(from, lifetimeSeconds),
  };
  return NewAuthority.selfSign({ trustDomain, publicKey, validity }, signingKeyOf(keys, publicKey));
}

const kinds: readonly string[] = ["EC-P256", "EC-P384", "RSA"];

/** The end of a sentence about a key of the service that can sign no root. */
export const wrongKind =
  "has a key of another type: a root takes EC P-256, EC P-384, or RSA of 2048 to 4096 bits";

/** A key that signs in its service. Each signature is verified before anybody gets it. */
function signingKeyOf(keys: readonly ServiceKey[], publicKey: SubjectPublicKey): SigningKey {
  if (!kinds.includes(publicKey.algorithm)) throw new KeyServiceError(wrongKind);
  const algorithm = SignatureAlgorithm.of(publicKey);
  const signWith = async (key: ServiceKey, bytes: Bytes): Promise<Bytes> => {
    const signature = await key.sign(bytes, algorithm);
    const signed = { signedBytes: bytes, signatureAlgorithm: algorithm.identifier, signature };
    if (await isSignedByKey(signed, publicKey)) return signature;
    throw new KeyServiceError("signed with another key than the one of the root's certificate");
  };
  return {
    algorithm,
    dsaEncoding: "der",
    sign: async (bytes) => (await firstOf(keys, (key) => signWith(key, bytes))).slice().buffer,
  };
}
