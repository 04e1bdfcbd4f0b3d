import type { LogPosition } from "../ca/issuance/issuance-log.ts";
import {
  type CertificateEntry,
  type LogEntry,
  parseEntry,
  type TokenEntry,
} from "../ca/issuance/log-entry.ts";
import { type Bytes, toHex } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { shownSerialNumber } from "../pki/encoding/serial-number.ts";
import { parseCertificate } from "../pki/x509/certificate.ts";
import { displayedName } from "../pki/x509/distinguished-name.ts";
import { LogError } from "../tlog/log-error.ts";
import { type Distrust, namesOf } from "./distrust.ts";

/** An entry as an operator sees it. Cluster, node and pod are empty where nobody knows them. */
export interface FoundEntry extends LogPosition {
  readonly at: Date;
  /** The URI name of the certificate, or its DNS names; the subject of a token. */
  readonly name: string;
  /** The `jti` of a token. */
  readonly serialNumber: string;
  /** Of a token; a certificate has none. */
  readonly audiences: readonly string[];
  readonly notAfter: Date;
  readonly cluster: string;
  readonly node: string;
  readonly pod: string;
  readonly proof: LogEntry["proof"];
  /** What rules decided, where the entry says so. */
  readonly decision?: Pick<LogEntry, "rule" | "shadowRule" | "shadowEffect"> | undefined;
  /** `undefined` where nothing is stated against it. */
  readonly distrust?: Distrust | undefined;
}

export type ReadEntry = FoundEntry & { readonly octets: Uint8Array };

type NamedFields = Pick<FoundEntry, "name" | "serialNumber" | "notAfter" | "audiences">;

const tokenFields = ({ token }: TokenEntry): NamedFields => ({
  name: token.spiffeId,
  serialNumber: token.jti,
  notAfter: new Date(token.expiresAt),
  audiences: token.audiences,
});

function certificateFields({ certificate: der }: CertificateEntry): NamedFields {
  const certificate = parseCertificate(der);
  const { subject, serialNumber, validity } = certificate.toBeSigned;
  return {
    name: namesOf(certificate) || displayedName(subject),
    serialNumber: shownSerialNumber(toHex(serialNumber)),
    notAfter: validity.notAfter,
    audiences: [],
  };
}

/** The storage is not trusted: an entry that is none is `undefined`. */
export function readEntry(octets: Bytes, position: LogPosition): ReadEntry | undefined {
  try {
    const entry = parseEntry(octets);
    const { at, cluster = "", node, pod, proof, rule, shadowRule, shadowEffect } = entry;
    return {
      ...position,
      octets,
      at: new Date(at),
      ...(entry.kind === "token" ? tokenFields(entry) : certificateFields(entry)),
      cluster,
      node: node?.name ?? "",
      pod: pod?.name ?? "",
      proof,
      ...((rule ?? shadowRule) !== undefined && { decision: { rule, shadowRule, shadowEffect } }),
    };
  } catch (error) {
    if (error instanceof LogError || error instanceof DerError) return undefined;
    throw error;
  }
}
