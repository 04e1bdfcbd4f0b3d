import type { Registry } from "prom-client";
import type { AuthorityView } from "../../ca/authority-view.ts";
import type { AuditEvent } from "../../ca/issuance/audit-event.ts";
import type { EventLog } from "../../ca/issuance/event-log.ts";
import type { Issuance } from "../../ca/issuance/issue-certificate.ts";
import { type Hindrances, readinessIn } from "../../ca/readiness.ts";
import type { HeldKeks } from "../../custody/kek.ts";
import { CaError } from "../../foundation/errors.ts";
import { SigningAuthority } from "../../pki/authority/signing-authority.ts";
import { Certificate } from "../../pki/x509/certificate.ts";
import { Metrics, type ReadGauge } from "../../program/metrics.ts";

/** Istio's names for errors in signing (docs/explanation/istio.md). */
type SignError = "CA_NOT_READY" | "CSR_ERROR" | "TTL_ERROR" | "CERT_GEN_ERROR" | "UNKNOWN";

type Reason = NonNullable<AuditEvent["reason"]>;

/** How a call without a certificate is counted. A new reason does not compile until it is listed here. */
const errorsByReason: Readonly<Record<Reason, SignError | "authentication">> = {
  "credential-missing": "authentication",
  "credential-rejected": "authentication",
  "impersonation-denied": "authentication",
  denied: "authentication",
  "policy-denied": "authentication",
  "no-signing-authority": "CA_NOT_READY",
  "store-unreachable": "CA_NOT_READY",
  "kek-unavailable": "CA_NOT_READY",
  "log-unavailable": "CA_NOT_READY",
  "csr-malformed": "CSR_ERROR",
  "csr-signature-invalid": "CSR_ERROR",
  "csr-signature-algorithm-unacceptable": "CSR_ERROR",
  "subject-key-unacceptable": "CSR_ERROR",
  "token-request-malformed": "CSR_ERROR",
  "lifetime-too-long": "TTL_ERROR",
  fault: "CERT_GEN_ERROR",
  "signer-unknown": "UNKNOWN",
  "signer-denied": "UNKNOWN",
  "dns-name-denied": "UNKNOWN",
  "audience-denied": "UNKNOWN",
  "tokens-off": "UNKNOWN",
  "quota-exceeded": "UNKNOWN",
  "request-abandoned": "UNKNOWN",
  "rpc-malformed": "UNKNOWN",
  "too-many-waiting": "UNKNOWN",
  "key-provider-unreachable": "UNKNOWN",
  "cluster-unreachable": "UNKNOWN",
  "cluster-busy": "UNKNOWN",
};

/**
 * Wraps a log so that each audit event is counted before it is passed on, under the names of istiod's metrics, which
 * keeps its dashboards and alerts working. Operational events are passed on uncounted.
 */
export function countingLog(log: EventLog, registry: Registry): EventLog {
  const counter = <Label extends string = never>(name: string, help: string, ...labels: Label[]) =>
    Metrics.addCounter(registry, name, help, ...labels);
  const calls = counter("citadel_server_csr_count", "Requests for a certificate.");
  const failures = counter(
    "citadel_server_authentication_failure_count",
    "Requests whose caller was not authenticated, or may not have the identity.",
  );
  const errors = counter(
    "citadel_server_csr_sign_err_count",
    "Calls of authenticated callers that were not signed: CSR_ERROR, TTL_ERROR, CA_NOT_READY, CERT_GEN_ERROR, UNKNOWN.",
    "error",
  );
  const issued = counter("citadel_server_success_cert_issuance_count", "Certificates issued.");
  const quotaRefusals = counter(
    "rampart_quota_refusals_total",
    "Calls beyond a quota: caller, issuer.",
    "quota",
  );
  const decisions = counter(
    "rampart_policy_decisions_total",
    "Calls about which a rule decided, by what it changed: denied, shortened, changed, same.",
    ...(["rule", "effect"] as const),
  );
  const shadows = counter(
    "rampart_policy_shadow_total",
    "The same of rules in shadow: what each would have changed.",
    ...(["rule", "effect"] as const),
  );
  return {
    ...log,
    audit: (event) => {
      calls.inc();
      const { rule, effect = "same", shadowRule, shadowEffect = "same" } = event;
      if (rule !== undefined) decisions.inc({ rule, effect });
      if (shadowRule !== undefined) shadows.inc({ rule: shadowRule, effect: shadowEffect });
      if (event.reason === "quota-exceeded") quotaRefusals.inc({ quota: event.check ?? "" });
      const error = errorsByReason[event.reason ?? "fault"];
      if (event.outcome === "issued") issued.inc();
      else if (error === "authentication") failures.inc();
      else errors.inc({ error });
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
    read: ({ trustBundle }, now) => expiryOf(trustBundle.roots[0]) - Metrics.unixTime(now),
  },
  {
    name: "citadel_server_cert_chain_expiry_timestamp",
    help: "When the certificate that signs expires, in Unix time.",
    read: ({ issuer }) => expiryOf(issuer?.authority.certificate.der),
  },
  {
    name: "citadel_server_cert_chain_expiry_seconds",
    help: "How long the certificate that signs is valid.",
    read: ({ issuer }, now) => expiryOf(issuer?.authority.certificate.der) - Metrics.unixTime(now),
  },
  {
    name: "rampart_trust_bundle_roots",
    help: "Roots in the trust bundle.",
    read: ({ trustBundle }) => trustBundle.roots.length,
  },
  {
    name: "rampart_signs_until_timestamp",
    help: "When the authority that signs stops, in Unix time: a successor must sign by then.",
    read: ({ issuer }) => Metrics.unixTime(issuer?.authority.schedule.signsUntil),
  },
  {
    name: "rampart_successor_signs_from_timestamp",
    help: "When the next authority begins to sign, in Unix time; NaN before there is one.",
    read: ({ store }, now) => {
      const authorities = store.openAuthorities.map(({ authority }) => authority);
      return Metrics.unixTime(SigningAuthority.nextAt(authorities, now)?.schedule.signsFrom);
    },
  },
];

/**
 * Adds gauges: whether a certificate could be issued now, when roots expire, and until when the signing authority
 * signs. Without a readable store the CA is not ready, and the others are NaN.
 */
export function addAuthorityGauges(
  registry: Registry,
  issuance: () => Pick<Issuance, "authorities"> & Hindrances,
  clock: () => Date,
): void {
  const valueNow = async (
    read: (view: AuthorityView, now: Date) => number | Promise<number>,
    otherwise: number,
  ): Promise<number> => {
    const now = clock();
    try {
      return await read(await issuance().authorities.at(now), now);
    } catch (error) {
      if (error instanceof CaError) return otherwise;
      throw error;
    }
  };
  // Not a sum, because the processes of a server read the same store.
  const shared = { aggregator: "first" } as const;
  Metrics.addReadGauge(registry, {
    ...shared,
    name: "rampart_ready",
    help: "1 when the program can do its work now.",
    read: () =>
      valueNow(async (view, now) => ((await readinessIn(view, issuance(), now)).ready ? 1 : 0), 0),
  });
  for (const { read, ...gauge } of authorityGauges) {
    Metrics.addReadGauge(registry, { ...gauge, ...shared, read: () => valueNow(read, Number.NaN) });
  }
}

/** Adds the gauge of the time until which this process may hold its KEK; NaN for a KEK without a lease. */
export function addKekGauge(registry: Registry, { until }: HeldKeks): void {
  Metrics.addReadGauge(registry, {
    name: "rampart_kek_held_until_timestamp",
    help: "When the lease of the KEK ends, in Unix time, unless a key service opens it again; NaN without a lease.",
    aggregator: "min",
    read: () => Metrics.unixTime(until()),
  });
}

function expiryOf(der: Uint8Array<ArrayBuffer> | undefined): number {
  return Metrics.unixTime(der && Certificate.parse(der).toBeSigned.validity.notAfter);
}
