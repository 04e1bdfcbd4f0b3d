import { CaError } from "../../foundation/errors.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { DerError, Tag } from "../../pki/encoding/der-reader.ts";
import { parseWorkloadSpiffeId, type TrustDomain, workloadSpiffeId } from "../../pki/spiffe-id.ts";
import { parseCertificate } from "../../pki/x509/certificate.ts";
import type { CertificateExtensions } from "../../pki/x509/certificate-extensions.ts";
import type { Validity } from "../../pki/x509/validity.ts";
import type { Authenticator } from "../authenticator.ts";
import type { Caller } from "../caller.ts";
import { rejectCredential } from "../credential-rejection.ts";

/**
 * Authenticates by an X509-SVID of this mesh, as Istio's `ClientCertAuthenticator` does. istiod takes
 * every name of the certificate for the caller's; here only the SPIFFE ID counts.
 */
export function createCertificateAuthenticator(trustDomain: TrustDomain): Authenticator {
  return async ({ clientCertificate }, now) => {
    if (clientCertificate) return parseClientCertificate(clientCertificate, trustDomain, now);
    throw new CaError({ reason: "credential-missing" }, "no client certificate");
  };
}

/**
 * The workload that a client certificate names. The certificate must be a leaf that is valid at `now`,
 * with exactly one URI; names of other kinds do not count (X509-SVID §5.2).
 *
 * @param der A certificate whose chain the platform verified, as well as the peer's possession of its key.
 * @throws CaError `credential-rejected` (`form`, `time`, `subject`).
 */
export function parseClientCertificate(der: Bytes, trustDomain: TrustDomain, now: Date): Caller {
  const { validity, uris } = readLeaf(der);
  if (now < validity.notBefore || now > validity.notAfter) {
    throw rejectCredential("time", "the client certificate is not valid at this time");
  }
  const [uri = "", ...more] = uris;
  const workload = more.length === 0 ? parseWorkloadSpiffeId(uri) : undefined;
  if (!workload || workload.trustDomain !== trustDomain) {
    throw rejectCredential(
      "subject",
      "the client certificate does not name one workload of this mesh",
    );
  }
  const { account } = workload;
  return { spiffeId: workloadSpiffeId(trustDomain, account), account };
}

interface LeafNames {
  readonly validity: Validity;
  readonly uris: readonly string[];
}

function readLeaf(der: Bytes): LeafNames {
  try {
    const { validity, extensions } = parseCertificate(der).toBeSigned;
    requireNoAuthority(extensions);
    return { validity, uris: urisOf(extensions) };
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw rejectCredential("form", `the client certificate: ${error.message}`, error);
  }
}

/** X509-SVID §4.1: a signing certificate authenticates nobody. */
function requireNoAuthority(extensions: CertificateExtensions): void {
  extensions.basicConstraints?.value.fork().enter(Tag.sequence).finish();
}

const uriName = Tag.contextPrimitive(6);

/** The tags of GeneralName by number (RFC 5280 §4.2.1.6): those of structured types are constructed. */
const generalNames: readonly number[] = [
  Tag.contextConstructed(0),
  Tag.contextPrimitive(1),
  Tag.contextPrimitive(2),
  Tag.contextConstructed(3),
  Tag.contextConstructed(4),
  Tag.contextConstructed(5),
  uriName,
  Tag.contextPrimitive(7),
  Tag.contextPrimitive(8),
];

/** The URIs of a certificate, without its names of other kinds. */
function urisOf(extensions: CertificateExtensions): string[] {
  const reader = extensions.subjectAltName?.value.fork();
  if (!reader) return [];
  const names = reader.enter(Tag.sequence);
  reader.finish();
  const uris: string[] = [];
  while (!names.isDone) {
    const kind = generalNames.find((tag) => names.nextIs(tag));
    if (kind === undefined) throw new DerError("a GeneralName with an unknown tag");
    const content = names.content(kind);
    if (kind === uriName) uris.push(new TextDecoder().decode(content));
  }
  return uris;
}
