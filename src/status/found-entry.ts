import type { LogPosition } from "../ca/issuance/issuance-log.ts";
import { type CertificateEntry, LogEntry, type TokenEntry } from "../ca/issuance/log-entry.ts";
import { type Bytes, Hex } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { SerialNumber } from "../pki/encoding/serial-number.ts";
import { Certificate } from "../pki/x509/certificate.ts";
import { displayedName } from "../pki/x509/displayed-name.ts";
import { LogError } from "../tlog/log-error.ts";
import { Distrust } from "./distrust.ts";

/** An entry as an operator sees it. Cluster, node and pod are empty if they are unknown. */
export interface FoundEntry extends LogPosition {
  readonly at: Date;
  /** The URI name of the certificate, or its DNS names; the subject of a token. */
  readonly name: string;
  /** The serial number of a certificate, or the `jti` of a token. */
  readonly serialNumber: string;
  /** The audiences of a token; empty for a certificate. */
  readonly audiences: readonly string[];
  readonly notAfter: Date;
  readonly cluster: string;
  readonly node: string;
  readonly pod: string;
  /** The `sub` and the recorded claims of a token that is no ServiceAccount's. */
  readonly claimed: readonly string[];
  readonly proof: LogEntry["proof"];
  /** The decision of the policy, if the entry records it. */
  readonly decision?: Pick<LogEntry, "rule" | "shadowRule" | "shadowEffect"> | undefined;
  /** The revocation or denial that concerns it, if there is one. */
  readonly distrust?: Distrust | undefined;
}

/** An entry that was found, with its octets. */
export type ReadEntry = FoundEntry & { readonly octets: Uint8Array };

type NamedFields = Pick<FoundEntry, "name" | "serialNumber" | "notAfter" | "audiences">;

const tokenFields = ({ token }: TokenEntry): NamedFields => ({
  name: token.spiffeId,
  serialNumber: token.jti,
  notAfter: new Date(token.expiresAt),
  audiences: token.audiences,
});

function certificateFields({ certificate: der }: CertificateEntry): NamedFields {
  const certificate = Certificate.parse(der);
  const { subject, serialNumber, validity } = certificate.toBeSigned;
  return {
    name: Distrust.namesOf(certificate) || displayedName(subject),
    serialNumber: SerialNumber.shown(Hex.format(serialNumber)),
    notAfter: validity.notAfter,
    audiences: [],
  };
}

const claimedIn = ({ tokenSubject }: LogEntry): readonly string[] =>
  typeof tokenSubject === "object"
    ? [tokenSubject.sub, ...Object.values(tokenSubject.claims).flat()]
    : [];

/** Parses a log entry, without its `distrust`. @returns `undefined` for a malformed one, because the storage is not trusted. */
export function readEntry(octets: Bytes, position: LogPosition): ReadEntry | undefined {
  try {
    const entry = LogEntry.parse(octets);
    const { at, cluster = "", node, pod, proof, rule, shadowRule, shadowEffect } = entry;
    return {
      ...position,
      octets,
      at: new Date(at),
      ...(entry.kind === "token" ? tokenFields(entry) : certificateFields(entry)),
      cluster,
      node: node?.name ?? "",
      pod: pod?.name ?? "",
      claimed: claimedIn(entry),
      proof,
      ...((rule ?? shadowRule) !== undefined && { decision: { rule, shadowRule, shadowEffect } }),
    };
  } catch (error) {
    if (error instanceof LogError || error instanceof DerError) return undefined;
    throw error;
  }
}
