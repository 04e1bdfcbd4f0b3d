import { X509Certificate } from "node:crypto";
import type { LogEntry } from "../../../ca/issuance/log-entry.ts";
import { shownSerialNumber } from "../../../pki/encoding/serial-number.ts";
import { LogError } from "../../../tlog/log-error.ts";

/** The fields of an entry by which an operator finds it. */
export interface LoggedCertificate {
  readonly at: string;
  /** The URI name of the certificate, or its DNS names. */
  readonly spiffeId: string;
  /** As {@link shownSerialNumber} has it. */
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
    serial: shownSerialNumber(certificate.serialNumber),
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
