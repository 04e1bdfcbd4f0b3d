import { rejectCredential } from "../foundation/errors.ts";
import { Bytes } from "../pki/encoding/bytes.ts";
import { DerError, Tag } from "../pki/encoding/der-reader.ts";
import { Oid } from "../pki/encoding/object-identifiers.ts";
import { type ServiceAccount, SpiffeId, type TrustDomain } from "../pki/spiffe-id.ts";
import { Certificate } from "../pki/x509/certificate.ts";
import { uriName } from "../pki/x509/certificate-extensions.ts";

/** A client certificate whose form, time and name were checked, but not its signature. */
export interface ClientCertificate {
  readonly certificate: Certificate;
  readonly spiffeId: SpiffeId;
  readonly account: ServiceAccount;
}

/** A leaf with keys of RSA-4096 has 2 kB. */
const maximumOctets = 8192;

/**
 * Parses the workload's identity from a client certificate. The certificate must be a leaf for clients that is valid
 * at `now`, with exactly one URI (X509-SVID §5.2). Names of other kinds are ignored. Its signature is not verified.
 *
 * @param der A certificate that nobody has verified.
 * @throws CaError `credential-rejected` (`form`, `time`, `subject`).
 */
export function parseClientCertificate(
  der: Bytes,
  trustDomain: TrustDomain,
  now: Date,
): ClientCertificate {
  const { certificate, uris } = refusingDerErrors(() => readLeaf(der));
  const { validity } = certificate.toBeSigned;
  if (now < validity.notBefore || now > validity.notAfter) {
    throw rejectCredential("time", "the client certificate is not valid at this time");
  }
  const [uri = "", ...more] = uris;
  const workload = more.length === 0 ? SpiffeId.parseWorkload(uri) : undefined;
  if (!workload || workload.trustDomain !== trustDomain) {
    throw rejectCredential(
      "subject",
      "the client certificate does not name one workload of this mesh",
    );
  }
  const { account } = workload;
  return { certificate, spiffeId: SpiffeId.ofWorkload(trustDomain, account), account };
}

function readLeaf(der: Bytes): { certificate: Certificate; uris: readonly string[] } {
  if (der.length > maximumOctets) throw new DerError("longer than any leaf");
  const certificate = Certificate.parse(der);
  const { extensions } = certificate.toBeSigned;
  requireLeaf(extensions);
  requireClientUse(extensions);
  return { certificate, uris: urisOf(extensions) };
}

/** Reads a part of a client certificate. @throws CaError `credential-rejected` (`form`) instead of a DerError. */
export function refusingDerErrors<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw malformed(error);
  }
}

/** Turns a DerError into the refusal of a client certificate. Returns any other error unchanged. */
export function malformed(error: unknown): unknown {
  if (!(error instanceof DerError)) return error;
  return rejectCredential("form", `the client certificate: ${error.message}`, error);
}

type Extensions = Certificate["toBeSigned"]["extensions"];

const Usage = { digitalSignature: 0x80, keyCertSign: 0x04, cRLSign: 0x02 } as const;

/** Refuses a CA certificate, which authenticates nobody (X509-SVID §4.1 and §4.3). */
function requireLeaf({ basicConstraints, keyUsage, hasUnknownCritical }: Extensions): void {
  if (hasUnknownCritical) throw new DerError("an unknown extension is critical (RFC 5280 §4.2)");
  basicConstraints?.value.fork().enter(Tag.sequence).finish();
  const [, bits = 0] = keyUsage?.value.fork().content(Tag.bitString) ?? [];
  const required = bits & (Usage.digitalSignature | Usage.keyCertSign | Usage.cRLSign);
  if (required !== Usage.digitalSignature) throw new DerError("its key usage is no leaf's");
}

/** Refuses a certificate that is not for TLS clients, such as a serving certificate (RFC 5280 §4.2.1.12). */
function requireClientUse({ extKeyUsage }: Extensions): void {
  const purposes = extKeyUsage?.value.fork().enter(Tag.sequence);
  let isClients = false;
  while (purposes && !purposes.isDone) {
    if (Bytes.equal(purposes.element(Tag.objectIdentifier), Oid.clientAuth)) isClients = true;
  }
  if (!isClients) throw new DerError("it is not for clients");
}

/** The tags of GeneralName (RFC 5280 §4.2.1.6). Those of structured types are constructed. */
const generalNames: readonly number[] = [
  ...[0, 3, 4, 5].map(Tag.contextConstructed),
  ...[1, 2, 6, 7, 8].map(Tag.contextPrimitive),
];

/** The URIs of a certificate, without its names of other kinds. */
function urisOf({ subjectAltName }: Extensions): string[] {
  const reader = subjectAltName?.value.fork();
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
