import "reflect-metadata/lite";
import {
  type GeneralName,
  Pkcs10CertificateRequest,
  SubjectAlternativeNameExtension,
  X509Certificate,
  X509Crl,
} from "@peculiar/x509";
import { OperatorError } from "../../../foundation/errors.ts";
import { jsonIn, Members } from "../../../foundation/json-members.ts";
import { Base64 } from "../../../pki/encoding/base64.ts";
import { type Bytes, fingerprintOf, Hex } from "../../../pki/encoding/bytes.ts";
import { DerError } from "../../../pki/encoding/der-reader.ts";
import { Pem, type PemBlock, PemError } from "../../../pki/encoding/pem.ts";
import { SvidChain } from "../../../pki/path/svid-chain.ts";
import { SpiffeId } from "../../../pki/spiffe-id.ts";
import { Certificate } from "../../../pki/x509/certificate.ts";
import { IdentityProof } from "../../../pki/x509/leaf/identity-proof.ts";
import { algorithmOf, isOverSha1, keyKindOf, weaknessOf } from "./algorithms.ts";

/** A certificate, request, CRL or key in a file, with what is wrong with it. */
export interface Inspected {
  readonly kind: "certificate" | "request" | "crl" | "token key" | "private key";
  /** The fields by their names, in the order in which they are shown. */
  readonly fields: Readonly<Record<string, string>>;
  readonly faults: readonly string[];
}

type Read = (der: Bytes) => X509Certificate | Pkcs10CertificateRequest | X509Crl;

const readers: Readonly<Record<string, Read>> = {
  CERTIFICATE: (der) => new X509Certificate(der),
  "CERTIFICATE REQUEST": (der) => new Pkcs10CertificateRequest(der),
  "X509 CRL": (der) => new X509Crl(der),
};

/**
 * Describes each certificate, request, CRL and key in PEM, DER or a SPIFFE bundle; a private key only by its presence.
 * @throws OperatorError for anything else.
 */
export async function inspect(octets: Uint8Array, now: Date): Promise<readonly Inspected[]> {
  const text = new TextDecoder().decode(octets);
  const { keys } = Members.of(jsonIn(text));
  if (Array.isArray(keys)) return inspectBundle(keys.map(Members.of), now);
  const blocks = blocksIn(text);
  const found = blocks.length > 0 ? blocks.flatMap(readBlock) : [readDer(new Uint8Array(octets))];
  return await describeAll(found, now);
}

function blocksIn(text: string): readonly PemBlock[] {
  try {
    return Pem.blocks(text);
  } catch (error) {
    if (error instanceof PemError) throw new OperatorError(`it ${error.message}`);
    throw error;
  }
}

type Found = ReturnType<Read> | "private key";

function readBlock(block: PemBlock, index: number): Found {
  const { label } = block;
  if (label.endsWith("PRIVATE KEY")) return "private key";
  const read = readers[label.replace("NEW CERTIFICATE", "CERTIFICATE")];
  const der = Base64.parse(Pem.symbols(block));
  if (!read)
    throw new OperatorError(`block ${index + 1} is a ${label}, which this verb does not read`);
  try {
    return read(der ?? new Uint8Array());
  } catch (cause) {
    throw new OperatorError(`block ${index + 1} is no ${label.toLowerCase()}`, { cause });
  }
}

function readDer(der: Bytes): Found {
  for (const read of Object.values(readers)) {
    try {
      return read(der);
    } catch {
      // The next reader tries it as another kind.
    }
  }
  throw new OperatorError(
    "it is no certificate, request, CRL or SPIFFE bundle, in PEM, DER or JSON",
  );
}

async function inspectBundle(keys: readonly Members[], now: Date): Promise<readonly Inspected[]> {
  const roots = keys.flatMap(({ x5c }) => (Array.isArray(x5c) ? x5c.map(String) : []));
  const certificates = roots.map((root) => readDer(Base64.parse(root) ?? new Uint8Array()));
  const forTokens = keys.filter(({ use }) => use === "jwt-svid");
  const described = forTokens.map(({ kid, kty, crv, alg }): Inspected => {
    const key = [kty, crv ?? alg].filter(Boolean).join(" ");
    return { kind: "token key", fields: { id: `${kid}`, key }, faults: [] };
  });
  return [...(await describeAll(certificates, now)), ...described];
}

async function describeAll(found: readonly Found[], now: Date): Promise<readonly Inspected[]> {
  const certificates = found.filter((each) => each instanceof X509Certificate);
  return await Promise.all(
    found.map((each) => {
      if (each === "private key") return { kind: each, fields: {}, faults: [] } as const;
      if (each instanceof X509Certificate) return describeCertificate(each, certificates, now);
      return each instanceof X509Crl ? describeCrl(each, certificates, now) : describeRequest(each);
    }),
  );
}

async function describeCertificate(
  certificate: X509Certificate,
  others: readonly X509Certificate[],
  now: Date,
): Promise<Inspected> {
  const der = new Uint8Array(certificate.rawData);
  const names = namesOf(certificate);
  const spiffeId = SvidChain.spiffeIdOf(certificate);
  const { proof, fault } = readStrictly(der);
  const issuer = await issuerAmong(certificate, others);
  const isCa = SvidChain.isCaCertificate(certificate);
  return {
    kind: "certificate",
    fields: {
      ...(spiffeId !== undefined && { "SPIFFE ID": spiffeId }),
      subject: certificate.subject || "(none)",
      names:
        names.map(({ type, value }) => `${type.toUpperCase()}:${value}`).join(", ") || "(none)",
      "issued by": `${certificate.issuer || "(none)"}, ${issuer.words}`,
      serial: certificate.serialNumber,
      valid: validityOf(certificate.notBefore, certificate.notAfter),
      key: keyKindOf(certificate.publicKey),
      signature: algorithmOf(certificate.signatureAlgorithm),
      "may issue": isCa ? "yes, it is a CA" : "no",
      ...(proof && { proof: proofOf(proof) }),
      "SHA-256": fingerprintOf(der),
    },
    faults: [
      ...timeFaults(certificate.notBefore, certificate.notAfter, now),
      ...(issuer.fault ? [issuer.fault] : []),
      ...(fault ? [fault] : []),
      ...weaknessOf(certificate.signatureAlgorithm, certificate.publicKey),
      ...(isCa ? [] : identityFaults(names, spiffeId)),
    ],
  };
}

type Name = Readonly<Pick<GeneralName, "type" | "value">>;

const namesOf = ({ extensions }: X509Certificate | Pkcs10CertificateRequest): readonly Name[] =>
  extensions
    .filter((each) => each instanceof SubjectAlternativeNameExtension)
    .flatMap((each) => each.names.items);

const shownNames = (names: readonly Name[]): string =>
  names.map(({ type, value }) => `${type.toUpperCase()}:${value}`).join(", ") || "(none)";

/** Reads a certificate with this CA's own parser, which accepts nothing but DER. */
function readStrictly(der: Bytes): { readonly proof?: IdentityProof; readonly fault?: string } {
  try {
    const { identityProof } = Certificate.parse(der).toBeSigned.extensions;
    return identityProof ? { proof: IdentityProof.read(identityProof) } : {};
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    return { fault: `strict parsers refuse it: ${error.message}` };
  }
}

/** Says which certificate of the same file has issued it. */
async function issuerAmong(
  certificate: X509Certificate,
  others: readonly X509Certificate[],
): Promise<{ readonly words: string; readonly fault?: string }> {
  for (const [i, each] of others.entries()) {
    if (!(await SvidChain.isIssuedBy(certificate, each).catch(() => false))) continue;
    return { words: each === certificate ? "itself" : `certificate ${i + 1} here` };
  }
  const namesake = others.find(({ subject }) => subject === certificate.issuer);
  if (!namesake) return { words: "who is not here" };
  if (isOverSha1(certificate.signatureAlgorithm)) return { words: "not verified" };
  const who = namesake === certificate ? "it" : "a certificate here";
  return { words: "not verified", fault: `${who} has the name of its issuer, but did not sign it` };
}

const identityFaults = (names: readonly Name[], spiffeId: string | undefined) => {
  if (spiffeId !== undefined) {
    return SpiffeId.isWorkload(spiffeId) ? [] : [`${spiffeId} is no SPIFFE ID of a workload`];
  }
  const uris = names.filter(({ type }) => type === "url").length;
  if (uris > 1) return [`it has ${uris} URIs: an X509-SVID has one`];
  return names.length === 0 ? ["it names nobody"] : [];
};

async function describeRequest(request: Pkcs10CertificateRequest): Promise<Inspected> {
  const isProved = await request.verify().catch(() => false);
  return {
    kind: "request",
    fields: {
      subject: request.subject || "(none)",
      names: shownNames(namesOf(request)),
      key: keyKindOf(request.publicKey),
      signature: algorithmOf(request.signatureAlgorithm),
    },
    faults: [
      ...(isProved ? [] : ["its signature is not that of its key"]),
      ...weaknessOf(request.signatureAlgorithm, request.publicKey),
    ],
  };
}

async function describeCrl(
  crl: X509Crl,
  certificates: readonly X509Certificate[],
  now: Date,
): Promise<Inspected> {
  const issuer = certificates.find(({ subject }) => subject === crl.issuer);
  const isSigned =
    !issuer || (await crl.verify({ publicKey: issuer.publicKey }).catch(() => false));
  const { thisUpdate, nextUpdate, entries } = crl;
  const serials = entries.map(({ serialNumber }) => serialNumber);
  const more = serials.length > 5 ? `, and ${serials.length - 5} more` : "";
  return {
    kind: "crl",
    fields: {
      issuer: crl.issuer,
      valid: nextUpdate ? validityOf(thisUpdate, nextUpdate) : `from ${thisUpdate.toISOString()}`,
      revoked: serials.length === 0 ? "nothing" : `${serials.slice(0, 5).join(", ")}${more}`,
      signature: algorithmOf(crl.signatureAlgorithm),
    },
    faults: [
      ...timeFaults(thisUpdate, nextUpdate, now),
      ...(isSigned ? [] : ["the certificate here that has the name of its issuer did not sign it"]),
    ],
  };
}

const validityOf = (from: Date, until: Date): string =>
  `${from.toISOString()} until ${until.toISOString()}`;

function timeFaults(from: Date, until: Date | undefined, now: Date): readonly string[] {
  if (now < from) return ["it is not valid yet"];
  return until && now >= until ? ["it is not valid any more"] : [];
}

const proofOf = ({ provedAt, issuer, isImpersonated }: IdentityProof): string =>
  `a token ${isImpersonated ? "of another account, which named the workload, " : ""}at ${provedAt.toISOString()}, of the issuer with the digest ${Hex.format(issuer)}`;
