import { X509Certificate } from "node:crypto";
import type { LogEntry } from "../../../ca/issuance/log-entry.ts";
import { LogError } from "../../../tlog/log-error.ts";

/** The fields of an entry by which an operator finds it. */
export interface LoggedCertificate {
  readonly at: string;
  /** The URI name of the certificate, or its DNS names. */
  readonly spiffeId: string;
  /** Lower-case hexadecimal without leading zeros, as OpenSSL and Node print it. */
  readonly serial: string;
  readonly notAfter: string;
  readonly cluster?: string | null | undefined;
  readonly node?: string | null | undefined;
  readonly tokenId?: string | null | undefined;
  readonly impersonator?: string | null | undefined;
  /** Whether it is a CA which the mesh trusts, and no certificate that somebody asked for. */
  readonly isAuthority: boolean;
}

/** Reads the certificate of an entry by Node's own parser. @throws LogError `form` */
export function loggedCertificate(entry: LogEntry): LoggedCertificate {
  const certificate = parse(entry.certificate);
  const names = certificate.subjectAltName ?? "";
  return {
    at: entry.at,
    spiffeId: /^URI:(\S+)$/.exec(names)?.[1] ?? (names || certificate.subject),
    serial: canonicalSerial(certificate.serialNumber),
    notAfter: certificate.validToDate.toISOString(),
    cluster: entry.cluster,
    node: entry.node?.name,
    tokenId: entry.tokenId,
    impersonator: entry.impersonator,
    isAuthority: entry.proof === "authority",
  };
}

function parse(der: Uint8Array): X509Certificate {
  try {
    return new X509Certificate(der);
  } catch (error) {
    throw new LogError("form", "an entry without a certificate", error);
  }
}

/** A serial number as any program writes it: with colons, in upper case, with leading zeros. */
export function canonicalSerial(text: string): string {
  return text
    .replace(/^0x|[: ]/gi, "")
    .toLowerCase()
    .replace(/^0+(?=.)/, "");
}
