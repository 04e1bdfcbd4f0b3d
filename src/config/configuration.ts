import * as z from "zod/mini";
import { PolicyTable } from "../ca/policy/rule.ts";
import { CrlLifetime } from "../ca/revocation/crl-plan.ts";
import { ConfigurationError } from "../foundation/errors.ts";
import { Duration } from "../foundation/text.ts";
import type { Credential } from "../kubernetes/client.ts";
import type { PhaseLengths } from "../pki/authority/schedule.ts";
import type { LeafLifetimes } from "../pki/x509/validity.ts";
import { deniedHere, deniedTable, revokedTable, taintedAuthorities } from "./distrust.ts";
import { ConfigurationForm, NameForm } from "./form.ts";
import { contradictions, idleRules, policyFaults } from "./internal/contradictions.ts";
import { rootFaults, upstreamTable } from "./internal/upstream.ts";
import { credentialText, IssuerTable, sharedKeys } from "./issuer-table.ts";
import { kekKeys, keyServiceCredentialText } from "./keks.ts";
import {
  consoleConfiguration,
  consoleKeys,
  idleTokens,
  jwtKeys,
  logConfiguration,
  logKeys,
  tokenFaults,
  tokenPolicy,
} from "./optional-parts.ts";
import { credentialName, keyServiceCredential } from "./secrets.ts";
import {
  authorityKey,
  inceptionDate,
  sharedPostQuantum,
  signerTables,
  unknownIssuers,
} from "./signer-table.ts";

/** A checked configuration, in the types of the domain. */
export type Configuration = Readonly<ReturnType<typeof Configuration.parse>>;

const hour = 3600;

/** The time that a write to the store may take to reach every reader. */
export interface Propagation {
  /** The least `PROPAGATION_INTERVAL` other than 0, which is for a store with one reader. */
  readonly shortestSeconds: number;
  /** The default of `PROPAGATION_INTERVAL`, a duration. */
  readonly usual: string;
}

/** KV usually propagates a write within 60 s and each isolate reads it every 60 s; the minimum is twice their sum. */
const kvPropagation: Propagation = { shortestSeconds: 240, usual: "10m" };

const authorityRoot = z.enum(["self", "offline", "upstream"]);

/** The keys as operators write them. docs/reference/configuration.md says what they mean. */
const configurationSchema = z.strictObject({
  TRUST_DOMAIN: z.prefault(NameForm.trustDomain, "cluster.local"),
  ISSUERS: IssuerTable.schema,
  DEFAULT_WORKLOAD_CERT_TTL: z.optional(Duration.seconds),
  MAX_WORKLOAD_CERT_TTL: z.prefault(Duration.seconds, "2160h"),
  RENEWAL_LIMIT: z.prefault(Duration.seconds, "720h"),
  AUTHORITY_KEY: z._default(authorityKey, "EC-P256"),
  AUTHORITY_LIFETIME: z.optional(Duration.seconds),
  AUTHORITY_ROOT: z._default(authorityRoot, "self"),
  UPSTREAM_AUTHORITY: z.optional(upstreamTable),
  PROPAGATION_INTERVAL: z.prefault(Duration.seconds, kvPropagation.usual),
  INCEPTION_DATE: z.optional(inceptionDate),
  BUNDLE_WAIT: z.prefault(Duration.seconds, "50s"),
  SIGNERS: z._default(signerTables, []),
  POLICY: z.optional(PolicyTable.schema),
  TAINTED_AUTHORITIES: z._default(taintedAuthorities, []),
  DENIED: z._default(deniedTable, []),
  REVOKED: z._default(revokedTable, []),
  CRL: z._default(z.enum(["off", "on"]), "off"),
  ...jwtKeys,
  ...logKeys,
  ...consoleKeys,
  ...kekKeys,
});

/** Parses configurations. */
export const Configuration = {
  /** The names of all keys, without those of credentials, in the order of the table in docs/reference/configuration.md. */
  keys: Object.keys(configurationSchema.shape) satisfies readonly string[],

  /**
   * Reads a configuration. The function is long because each value that it returns says what it means.
   *
   * @param values Keys and values as the platform has them: text, or tables for keys such as `ISSUERS`.
   * @throws ConfigurationError with a sentence for each fault; contradictions are sought only if every value is valid.
   */
  parse(values: Readonly<Record<string, unknown>>, propagation: Propagation = kvPropagation) {
    const [credentials, others] = ConfigurationForm.partition(values, (key) =>
      credentialName.test(key),
    );
    const form = ConfigurationForm.parse(configurationSchema, {
      PROPAGATION_INTERVAL: propagation.usual,
      ...others,
    });
    const leafLifetimes = leafLifetimesOf(form);
    const phaseLengths = derivePhaseLengths(form);
    const denied = deniedHere(form.DENIED, {
      trustDomain: form.TRUST_DOMAIN,
      issuers: form.ISSUERS,
    });
    const faults = [
      ...contradictions(leafLifetimes, phaseLengths, propagation.shortestSeconds),
      ...(form.BUNDLE_WAIT > 300 ? ["BUNDLE_WAIT: must not exceed 5m"] : []),
      ...rootFaults(form.AUTHORITY_ROOT, form.UPSTREAM_AUTHORITY),
      ...unknownIssuers(form.SIGNERS, form.ISSUERS),
      ...policyFaults(form),
      ...denied.faults,
      ...tokenFaults(form),
    ];
    if (faults.length > 0) throw new ConfigurationError(faults);
    return {
      trustDomain: form.TRUST_DOMAIN,
      issuers: form.ISSUERS,
      leafLifetimes,
      /** How long after the last token a certificate alone may renew. An issuer's table may override it. */
      renewalSeconds: form.RENEWAL_LIMIT,
      authorityKey: form.AUTHORITY_KEY,
      phaseLengths,
      authorityRoot: form.AUTHORITY_ROOT,
      /** Present if `authorityRoot` is `upstream`. */
      upstream: form.UPSTREAM_AUTHORITY,
      inceptionDate: form.INCEPTION_DATE,
      /** The longest time that a request may wait for the trust bundle to change. */
      bundleWaitSeconds: form.BUNDLE_WAIT,
      signers: form.SIGNERS,
      /** These apply to the authorities of every signer. */
      configuredTaints: form.TAINTED_AUTHORITIES,
      /** Absent where no JWT-SVID is issued. */
      tokens: tokenPolicy(form),
      /** Absent where nothing is logged. */
      log: logConfiguration(form),
      /** Absent where no operator is named who may see the console. */
      console: consoleConfiguration(form),
      /** Absent if the configuration has no rules. */
      policy: form.POLICY,
      configuredDenials: denied.denials,
      configuredRevocations: form.REVOKED,
      /** Absent where CRLs are switched off. */
      crl: form.CRL === "on" ? CrlLifetime.of(leafLifetimes) : undefined,
      keks: form.KEK,
      /** How long an unwrapped KEK is held without asking its key service again. */
      kekLeaseSeconds: form.KEK_LEASE,
      /** The credentials for API servers, by the names that the tables of `ISSUERS` give them. */
      clusterCredentials: parseCredentials(credentials),
      /** One sentence each, for the log at start. */
      warnings: warningsOf(form),
    };
  },
};

type Form = z.infer<typeof configurationSchema>;

const leafLifetimesOf = (form: Form): LeafLifetimes => ({
  defaultSeconds: form.DEFAULT_WORKLOAD_CERT_TTL ?? Math.min(24 * hour, form.MAX_WORKLOAD_CERT_TTL),
  maximumSeconds: form.MAX_WORKLOAD_CERT_TTL,
});

/**
 * An authority is published before it signs, and after, each time for the longest lifetime of a leaf plus the
 * propagation interval. It signs during the rest of its lifetime.
 */
function derivePhaseLengths(form: Form): PhaseLengths {
  const longestLeafSeconds = form.MAX_WORKLOAD_CERT_TTL;
  const propagationSeconds = form.PROPAGATION_INTERVAL;
  const overlapSeconds = longestLeafSeconds + propagationSeconds;
  const lifetimeSeconds = form.AUTHORITY_LIFETIME ?? 6 * overlapSeconds;
  const signingSeconds = lifetimeSeconds - 2 * overlapSeconds;
  return { propagationSeconds, longestLeafSeconds, signingSeconds };
}

function warningsOf(form: Form): string[] {
  const { TRUST_DOMAIN, ISSUERS } = form;
  const singleLabel = `TRUST_DOMAIN ${TRUST_DOMAIN} is a single label: legal SPIFFE, but no host name of RFC 5280, and some X.509 software rejects it`;
  const unlimited = ISSUERS.filter(({ namespaces }) => namespaces.includes("*")).length;
  const sharing = `ISSUERS: ${unlimited} of ${ISSUERS.length} may vouch for every namespace, including those of other issuers`;
  return [
    ...(TRUST_DOMAIN.includes(".") ? [] : [singleLabel]),
    ...(ISSUERS.length > 1 && unlimited > 0 ? [sharing] : []),
    ...sharedKeys(ISSUERS),
    ...idleTokens(form),
    ...idleRules(form),
    ...sharedPostQuantum(form.SIGNERS),
  ];
}

/** The credentials for API servers, for the CA upstream and for key services, by their names. */
function parseCredentials(
  values: Readonly<Record<string, unknown>>,
): ReadonlyMap<string, Credential> {
  const [ofServices, bearers] = ConfigurationForm.partition(values, (key) =>
    keyServiceCredential.test(key),
  );
  const texts = {
    ...ConfigurationForm.parse(z.record(z.string(), credentialText), bearers),
    ...ConfigurationForm.parse(z.record(z.string(), keyServiceCredentialText), ofServices),
  };
  return new Map(Object.entries(texts).map(([name, text]) => [name, () => text]));
}
