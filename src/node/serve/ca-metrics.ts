import { Counter, type Registry } from "prom-client";
import type { Authorities } from "../../ca/authorities.ts";
import type { AuthorityView } from "../../ca/authority-view.ts";
import type { AuditEvent, EventLog } from "../../ca/issuance/audit-event.ts";
import { CaError } from "../../foundation/errors.ts";
import { nextSigningAuthority } from "../../pki/authority/signing-authority.ts";
import { parseCertificate } from "../../pki/x509/certificate.ts";
import {
  addReadGauge,
  countingOperations,
  type ReadGauge,
  unixTime,
} from "../../program/metrics.ts";

/** Istio's names for errors in signing (docs/explanation/istio.md#metrics). */
type SignError = "CA_NOT_READY" | "CSR_ERROR" | "TTL_ERROR" | "CERT_GEN_ERROR" | "UNKNOWN";

const signErrors: Readonly<Partial<Record<NonNullable<AuditEvent["reason"]>, SignError>>> = {
  "no-signing-authority": "CA_NOT_READY",
  "store-unreachable": "CA_NOT_READY",
  "csr-malformed": "CSR_ERROR",
  "csr-signature-invalid": "CSR_ERROR",
  "csr-signature-algorithm-unacceptable": "CSR_ERROR",
  "subject-key-unacceptable": "CSR_ERROR",
  "lifetime-too-long": "TTL_ERROR",
  fault: "CERT_GEN_ERROR",
};

const authenticationFailures: ReadonlySet<AuditEvent["reason"]> = new Set([
  "credential-missing",
  "credential-rejected",
  "impersonation-denied",
  "denied",
] as const);

/**
 * Counts the events of a log under the names of istiod's metrics, so that its dashboards and alerts keep
 * working.
 */
export function countingLog(log: EventLog, registry: Registry): EventLog {
  const counter = <Label extends string = never>(
    name: string,
    help: string,
    ...labelNames: Label[]
  ): Counter<Label> => new Counter({ name, help, labelNames, registers: [registry] });
  const calls = counter("citadel_server_csr_count", "Requests for a certificate.");
  const failures = counter(
    "citadel_server_authentication_failure_count",
    "Requests whose caller was not authenticated, or may not have the identity.",
  );
  const errors = counter(
    "citadel_server_csr_sign_err_count",
    "Requests of authenticated callers that were not signed.",
    "error",
  );
  const issued = counter("citadel_server_success_cert_issuance_count", "Certificates issued.");
  const quotaRefusals = counter(
    "rampart_quota_refusals_total",
    "Requests of callers that had asked for too many certificates, by the quota.",
    "quota",
  );
  return {
    ...countingOperations(log, registry),
    audit: (event) => {
      calls.inc();
      if (event.reason === "quota-exceeded") quotaRefusals.inc({ quota: event.check ?? "" });
      if (event.outcome === "issued") issued.inc();
      else if (authenticationFailures.has(event.reason)) failures.inc();
      else errors.inc({ error: signErrors[event.reason ?? "fault"] ?? "UNKNOWN" });
      log.audit(event);
    },
  };
}

interface AuthorityGauge extends Omit<ReadGauge, "read"> {
  readonly read: (view: AuthorityView, now: Date) => number;
}

const authorityGauges: readonly AuthorityGauge[] = [
  {
    name: "citadel_server_root_cert_expiry_timestamp",
    help: "When the first root expires, in Unix time.",
    read: ({ trustBundle }) => expiryOf(trustBundle.roots[0]),
  },
  {
    name: "citadel_server_root_cert_expiry_seconds",
    help: "How long the first root is valid.",
    read: ({ trustBundle }, now) => expiryOf(trustBundle.roots[0]) - unixTime(now),
  },
  {
    name: "citadel_server_cert_chain_expiry_timestamp",
    help: "When the certificate that signs expires, in Unix time.",
    read: ({ issuer }) => expiryOf(issuer?.authority.certificate.der),
  },
  {
    name: "citadel_server_cert_chain_expiry_seconds",
    help: "How long the certificate that signs is valid.",
    read: ({ issuer }, now) => expiryOf(issuer?.authority.certificate.der) - unixTime(now),
  },
  {
    name: "rampart_trust_bundle_roots",
    help: "Roots in the trust bundle.",
    read: ({ trustBundle }) => trustBundle.roots.length,
  },
  {
    name: "rampart_ready",
    help: "1 when a certificate could be signed now.",
    read: ({ issuer }) => (issuer ? 1 : 0),
  },
  {
    name: "rampart_signs_until_timestamp",
    help: "When the authority that signs stops, in Unix time: a successor must sign by then.",
    read: ({ issuer }) => unixTime(issuer?.authority.schedule.signsUntil),
  },
  {
    name: "rampart_successor_signs_from_timestamp",
    help: "When the next authority begins to sign, in Unix time; NaN before there is one.",
    read: ({ store }, now) => {
      const authorities = store.issuers.map(({ authority }) => authority);
      return unixTime(nextSigningAuthority(authorities, now)?.schedule.signsFrom);
    },
  },
];

/** Gauges of the authorities: when roots expire, and how long the one that signs will. NaN without a readable store. */
export function addAuthorityGauges(
  registry: Registry,
  authorities: Authorities,
  clock: () => Date,
): void {
  const valueNow = async (read: AuthorityGauge["read"]): Promise<number> => {
    const now = clock();
    try {
      return read(await authorities.at(now), now);
    } catch (error) {
      if (error instanceof CaError) return Number.NaN;
      throw error;
    }
  };
  for (const { read, ...gauge } of authorityGauges) {
    // The processes of one server read one store.
    addReadGauge(registry, { ...gauge, aggregator: "first", read: () => valueNow(read) });
  }
}

function expiryOf(der: Uint8Array<ArrayBuffer> | undefined): number {
  return unixTime(der && parseCertificate(der).toBeSigned.validity.notAfter);
}
