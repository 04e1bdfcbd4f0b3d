import { generateKeyPair, type KeyObject, type X509Certificate } from "node:crypto";
import { promisify } from "node:util";
import { SpiffeId } from "../../pki/spiffe-id.ts";
import { isIssuedBy } from "../../program/bundle/mesh-roots.ts";
import type { SubjectKey } from "../../program/certificate-request.ts";
import { parseCertificates } from "../../program/files/pem-file.ts";
import type { CertificatePurpose, SubjectKeyKind } from "../configuration/ca-settings.ts";

/** A workload's certificate with its chain and private key. */
export interface X509Svid {
  readonly spiffeId: SpiffeId;
  readonly privateKey: KeyObject;
  /** The leaf first; no root. Never empty. */
  readonly chain: readonly [X509Certificate, ...X509Certificate[]];
  /** The CA's answer, PEM, unchanged. The last element has all roots. */
  readonly certChain: readonly string[];
  readonly notAfter: Date;
  /** When the answer came, by the agent's own clock. As in Istio, the time of renewal is computed from it. */
  readonly obtainedAt: Date;
}

/** A CA's answer that has passed every check. */
export interface CaAnswer {
  readonly svid: X509Svid;
  /** The roots of the answer, in its order. Never empty. */
  readonly roots: readonly X509Certificate[];
}

/** How far the agent's clock may be behind: a certificate may begin this much later than now. */
const futureToleranceMilliseconds = 3_600_000;

/**
 * Parses and verifies the answer of CreateCertificate.
 *
 * @param certChain PEM: the leaf, each intermediate, and all roots in the last element.
 * @throws IssuanceError for an answer whose leaf is for another key, identity or purpose, has expired or begins more than
 *   an hour after `now`, or does not lead to one of its roots.
 */
export function parseAnswer(
  certChain: readonly string[],
  requested: { readonly spiffeId: SpiffeId; readonly privateKey: KeyObject },
  now: Date,
  purpose: CertificatePurpose = "identity",
): CaAnswer {
  if (certChain.length < 2) {
    throw new IssuanceError("answer-empty", `the answer has ${certChain.length} elements, not two`);
  }
  const [leaf, ...rest] = certChain.slice(0, -1).flatMap((pem) => parseCertificates(pem));
  const roots = parseCertificates(certChain.at(-1) ?? "");
  if (leaf === undefined || roots.length === 0) {
    throw new IssuanceError("answer-malformed", "the answer has no leaf, or no root");
  }
  // Some CAs repeat the root in the chain (istio#39001). Peers have the root already.
  const intermediates = rest.filter((ca) => !roots.some((root) => root.raw.equals(ca.raw)));
  const svid = {
    ...requested,
    certChain,
    chain: [leaf, ...intermediates] as const,
    notAfter: leaf.validToDate,
    obtainedAt: now,
  };
  requireUsable(svid, now, purpose);
  if (!isIssuedBy(svid.chain, roots, now)) {
    throw new IssuanceError("chain-broken", "the chain does not lead from the leaf to its roots");
  }
  return { svid, roots };
}

/** The extended key usage `serverAuth` (RFC 5280 §4.2.1.12). */
const serverAuth = "1.3.6.1.5.5.7.3.1";

function requireUsable(
  { chain: [leaf], privateKey, spiffeId }: X509Svid,
  now: Date,
  purpose: CertificatePurpose,
): void {
  if (leaf.ca || !leaf.checkPrivateKey(privateKey)) {
    throw new IssuanceError("key-mismatch", "the certificate is for another key");
  }
  if (purpose === "serving") {
    const names = leaf.subjectAltName?.split(", ") ?? [];
    const isServing = names.length > 0 && names.every((name) => name.startsWith("DNS:"));
    if (!isServing || !leaf.keyUsage?.includes(serverAuth)) {
      throw new IssuanceError(
        "identity-mismatch",
        "the certificate is not for a server's DNS names",
      );
    }
  } else if (!SpiffeId.isNamedBy(leaf.subjectAltName, spiffeId)) {
    throw new IssuanceError("identity-mismatch", `the certificate is not for ${spiffeId}`);
  }
  const isCurrent = leaf.validFromDate < leaf.validToDate && now < leaf.validToDate;
  const earliest = leaf.validFromDate.getTime() - futureToleranceMilliseconds;
  if (!isCurrent || now.getTime() < earliest) {
    const validity = `${leaf.validFromDate.toISOString()} to ${leaf.validToDate.toISOString()}`;
    throw new IssuanceError("validity-unacceptable", `the certificate is valid from ${validity}`);
  }
}

/** The certificate and its intermediates as PEM, the leaf first. */
export function chainPem({ chain }: X509Svid): string {
  return chain.map((certificate) => certificate.toString()).join("");
}

/** Why the CA issued no certificate, or why its answer was refused. */
type IssuanceFault =
  | "answer-empty"
  | "answer-malformed"
  | "key-mismatch"
  | "identity-mismatch"
  | "chain-broken"
  | "validity-unacceptable"
  | "authority-withdrawn"
  | "authority-unreachable"
  | "authority-refused"
  | "token-unusable";

/** A failed issuance. Its message reaches the log and the status, and holds no secret. */
export class IssuanceError extends Error {
  override readonly name = "IssuanceError";
  readonly fault: IssuanceFault;
  /** The wait that the CA asks for; 0 for none. */
  readonly retryAfterSeconds: number;

  constructor(fault: IssuanceFault, detail: string, cause?: unknown, retryAfterSeconds = 0) {
    super(detail, cause === undefined ? undefined : { cause });
    this.fault = fault;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

const generate = promisify(generateKeyPair);

/** Generates a key on another thread, because an RSA key takes long. */
export async function generateSubjectKey(key: SubjectKeyKind): Promise<SubjectKey> {
  return key.kind === "EC"
    ? await generate("ec", { namedCurve: key.curve })
    : await generate("rsa", { modulusLength: key.bits, publicExponent: 0x10001 });
}

/** PEM of a key as pilot-agent writes it: PKCS#8, or else the older SEC 1 (EC) and PKCS#1 (RSA). */
export function privateKeyPem(key: KeyObject, isPkcs8: boolean): string {
  if (isPkcs8) return key.export({ type: "pkcs8", format: "pem" }).toString();
  const type = key.asymmetricKeyType === "ec" ? "sec1" : "pkcs1";
  return key.export({ type, format: "pem" }).toString();
}
