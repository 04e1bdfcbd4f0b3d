import "reflect-metadata/lite";
import { Pkcs10CertificateRequestGenerator } from "@peculiar/x509";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import { SvidChain } from "../../pki/path/svid-chain.ts";
import { rejectResponse } from "./client-error.ts";
import type { TrustBundle } from "./trust-bundle.ts";

/** A `CryptoKey`, by a name that the types of every platform have. */
type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

type KeyPair = Readonly<Record<"privateKey" | "publicKey", Key>>;

/** A certificate of this workload with its key, and what verifies the certificates of others. */
export interface X509Svid {
  readonly spiffeId: string;
  /** PEM: the leaf, then its intermediates, and no root. */
  readonly certChain: string;
  /** P-256, for WebCrypto. */
  readonly privateKey: Key;
  /** The private key as PKCS #8 in PEM; absent if it is not extractable. */
  readonly privateKeyPem?: string;
  readonly obtainedAt: Date;
  readonly notAfter: Date;
  readonly trustBundle: TrustBundle;
}

const signingAlgorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** Generates a key, and a CSR that asks for no name: the CA takes the name from the token. */
export async function createRequest(
  isExtractable: boolean,
): Promise<{ readonly keys: KeyPair; readonly csr: string }> {
  const usages = ["sign", "verify"] as const;
  const keys = await crypto.subtle.generateKey(signingAlgorithm, isExtractable, usages);
  const csr = await Pkcs10CertificateRequestGenerator.create({ keys, signingAlgorithm });
  return { keys, csr: csr.toString("pem") };
}

/** How far the clock of this machine may be behind: a certificate may begin this much later than now. */
const futureToleranceMilliseconds = 3_600_000;

/**
 * Reads the X509-SVID in a response of CreateCertificate: the leaf, the intermediates, and as last element all roots,
 * which are ignored, because nothing proves them.
 * @throws ClientError `invalid-response` if the leaf has another key, is no X509-SVID or is not valid at `now`, and if
 *   the chain leads to no root of the trust bundle.
 */
export async function readSvid(
  answered: readonly string[],
  { privateKey, publicKey }: KeyPair,
  trustBundle: TrustBundle,
  now: Date,
): Promise<X509Svid> {
  const chain = parseChain(answered.slice(0, -1).join("\n"));
  const leaf = chain[0] ?? rejectResponse("the answer has no certificate");
  const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
  const isOwnKey = Bytes.equal(new Uint8Array(leaf.publicKey.rawData), spki);
  if (!isOwnKey) rejectResponse("the certificate is for another key");
  const isEarly = leaf.notBefore.getTime() - now.getTime() > futureToleranceMilliseconds;
  if (isEarly || now >= leaf.notAfter) rejectResponse("the certificate is not valid now");
  if (!(await SvidChain.leadsToRoot(chain, parseChain(trustBundle.pem), now))) {
    rejectResponse("the chain leads to no root of the trust bundle");
  }
  const pem = (label: string, der: ArrayBuffer): string => Pem.format(label, new Uint8Array(der));
  return {
    spiffeId:
      SvidChain.spiffeIdOf(leaf) ?? rejectResponse("the certificate is no X509-SVID of a workload"),
    certChain: chain.map(({ rawData }) => pem("CERTIFICATE", rawData)).join(""),
    privateKey,
    ...(privateKey.extractable && {
      privateKeyPem: pem("PRIVATE KEY", await crypto.subtle.exportKey("pkcs8", privateKey)),
    }),
    obtainedAt: now,
    notAfter: leaf.notAfter,
    trustBundle,
  };
}

/**
 * Whether the chain leads to a root of this trust bundle, which may be newer than the one of `svid`.
 */
export const isTrustedBy = (svid: X509Svid, { pem }: TrustBundle, now: Date): Promise<boolean> =>
  SvidChain.leadsToRoot(parseChain(svid.certChain), parseChain(pem), now);

const parseChain = (pem: string): NonNullable<ReturnType<typeof SvidChain.parse>> =>
  SvidChain.parse(pem) ?? rejectResponse("a certificate cannot be read");
