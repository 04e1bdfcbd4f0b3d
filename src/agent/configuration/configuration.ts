import { ConfigurationError } from "../../foundation/configuration-error.ts";
import type { SocketAddress } from "../../foundation/text/socket-address.ts";
import {
  parseServiceAccount,
  parseTrustDomain,
  type SpiffeId,
  type TrustDomain,
  workloadSpiffeId,
} from "../../pki/spiffe-id.ts";
import type { RenewalPolicy } from "../identity/renewal-plan.ts";
import type { SubjectKeyKind } from "../identity/subject-key.ts";
import { type CaAddress, parseCaAddress } from "../issuance/ca-address.ts";
import type { CaConnection } from "../issuance/ca-channel.ts";
import type { RequestSettings } from "../issuance/certificate-client.ts";
import type { HealthSettings } from "../xds/health/watch-workload.ts";
import type { XdsSettings } from "../xds/xds-proxy.ts";
import { bundleUrlOf, revocationUrlOf } from "./document-urls.ts";
import {
  type Environment,
  parseVariables,
  type Variables,
  variablesWithPrefix,
} from "./environment.ts";
import { type OutputSettings, outputOf } from "./output-settings.ts";
import { type MissedVariable, missedVariables } from "./unsupported-variables.ts";
import { healthSettingsOf, xdsSettingsOf } from "./xds-settings.ts";

/**
 * The identities of an agent: one of its own, or those of the workloads that a feed lists. In serving mode the
 * agent's own certificate is that of a TLS server, with the DNS names that the CA grants to its account.
 */
export type AgentSubject =
  | { readonly mode: "sidecar" | "serving"; readonly spiffeId: SpiffeId }
  | { readonly mode: "node"; readonly feed: string; readonly lingerMilliseconds: number };

/** A foreign trust domain and its bundle endpoint (SPIFFE Federation §5.2.1, https_web). */
export interface FederatedEndpoint {
  readonly trustDomain: TrustDomain;
  readonly url: string;
}

/** The folder that keeps certificates for the next start. With a key file they are sealed. */
export interface CacheSettings {
  readonly folder: string;
  readonly keyFile: string | undefined;
}

/** The configuration of an agent. */
export interface AgentConfiguration {
  readonly trustDomain: TrustDomain;
  readonly subject: AgentSubject;
  readonly ca: CaConnection;
  readonly request: RequestSettings;
  readonly renewal: RenewalPolicy;
  readonly isPkcs8: boolean;
  /** The URL of the published bundle, or `undefined` if there is none. */
  readonly bundleUrl: string | undefined;
  /** The URL of the CA's revocation lists, or `undefined` if none are read. */
  readonly revocationUrl: string | undefined;
  readonly longestBundleRefreshSeconds: number;
  readonly federation: readonly FederatedEndpoint[];
  /** A PEM file with the roots for the TLS of these endpoints, or `undefined` for the system's roots. */
  readonly federatedRootFile: string | undefined;
  readonly sdsSocket: string;
  readonly workloadApiSocket: string | undefined;
  /** The XDS proxy, or `undefined` if no address of istiod is given. */
  readonly xds: XdsSettings | undefined;
  /** The probe of the workload, where istiod can be told of it. */
  readonly health: HealthSettings | undefined;
  readonly statusAddress: SocketAddress;
  readonly fileDebounceMilliseconds: number;
  /** Whether every certificate comes from files, and none from the CA. */
  readonly isFileMounted: boolean;
  readonly crlFile: string | undefined;
  readonly output: OutputSettings | undefined;
  readonly cache: CacheSettings | undefined;
  /** Set variables of pilot-agent without their effect. The log names each once. */
  readonly ignoredVariables: readonly MissedVariable[];
}

/** @throws ConfigurationError with one line for each fault. */
export function parseConfiguration(environment: Environment): AgentConfiguration {
  const variables = parseVariables(environment);
  const missed = missedVariables(environment);
  const faults = missed.refused.map(({ name, why }) => `${name}: ${why}`);
  const subject = subjectOf(variables, faults);
  const address = addressOf(variables, faults);
  const federation = federationOf(variables, faults);
  const rootFile = rootFileOf(variables, faults);
  const bundleUrl = address && bundleUrlOf(variables.RAMPART_BUNDLE_URL, address);
  const xds = xdsSettingsOf(variables, environment, faults);
  faults.push(...contradictions(variables, subject), ...servingFaults(variables));
  if (subject === undefined || address === undefined || faults.length > 0) {
    throw new ConfigurationError(faults);
  }
  return {
    trustDomain: variables.TRUST_DOMAIN,
    subject,
    ca: { address, rootFile, clientCertificateFolder: variables.PROV_CERT },
    request: requestOf(variables, environment, subject),
    renewal: {
      graceRatio: variables.SECRET_GRACE_PERIOD_RATIO,
      jitter: variables.SECRET_GRACE_PERIOD_RATIO_JITTER,
    },
    isPkcs8: variables.PKCS8_KEY,
    bundleUrl,
    revocationUrl: revocationUrlOf(variables.RAMPART_CRL_URL, bundleUrl),
    longestBundleRefreshSeconds: Math.max(1, variables.RAMPART_BUNDLE_REFRESH / 1000),
    federation,
    federatedRootFile: variables.RAMPART_FEDERATED_ROOT_CA,
    sdsSocket: variables.RAMPART_SDS_SOCKET,
    workloadApiSocket: variables.RAMPART_WORKLOAD_API_SOCKET,
    xds,
    health: xds && healthSettingsOf(variables),
    statusAddress: variables.RAMPART_STATUS_ADDR,
    fileDebounceMilliseconds: variables.FILE_DEBOUNCE_DURATION,
    isFileMounted: variables.FILE_MOUNTED_CERTS,
    crlFile: variables.PILOT_ENABLE_CA_CRL ? "/var/run/secrets/istio/crl/ca-crl.pem" : undefined,
    output: outputOf(variables),
    cache: variables.RAMPART_CACHE
      ? { folder: variables.RAMPART_CACHE, keyFile: variables.RAMPART_CACHE_KEY_FILE }
      : undefined,
    ignoredVariables: missed.ignored,
  };
}

function contradictions(variables: Variables, subject: AgentSubject | undefined): string[] {
  const { PROV_CERT, FILE_MOUNTED_CERTS, OUTPUT_CERTS, RAMPART_WORKLOAD_API_SOCKET } = variables;
  const faults: string[] = [];
  if (PROV_CERT && FILE_MOUNTED_CERTS) {
    faults.push("PROV_CERT and FILE_MOUNTED_CERTS exclude each other");
  }
  if (subject?.mode === "node" && (OUTPUT_CERTS || RAMPART_WORKLOAD_API_SOCKET)) {
    faults.push(
      "OUTPUT_CERTS and RAMPART_WORKLOAD_API_SOCKET: serve one identity, and a node has many",
    );
  }
  return faults;
}

function subjectOf(variables: Variables, faults: string[]): AgentSubject | undefined {
  const { RAMPART_WORKLOADS: feed, RAMPART_LINGER: lingerMilliseconds } = variables;
  if (feed !== undefined) return { mode: "node", feed, lingerMilliseconds };
  const account = parseServiceAccount(variables.POD_NAMESPACE, variables.SERVICE_ACCOUNT);
  const mode = variables.RAMPART_SERVING_CERTS === undefined ? "sidecar" : "serving";
  if (account) return { mode, spiffeId: workloadSpiffeId(variables.TRUST_DOMAIN, account) };
  faults.push("POD_NAMESPACE and SERVICE_ACCOUNT: must name the workload's ServiceAccount");
  return undefined;
}

/** The `CertSigner` of a request for a serving certificate. */
const servingSigner = "serving";

const defaultAddress = "istiod.istio-system.svc:15012";

function addressOf(variables: Variables, faults: string[]): CaAddress | undefined {
  const { CA_ADDR, ISTIOD_SAN, PROXY_CONFIG } = variables;
  const text = CA_ADDR ?? PROXY_CONFIG.discoveryAddress ?? defaultAddress;
  const address = parseCaAddress(text, CA_ADDR ? undefined : ISTIOD_SAN);
  if (!address) faults.push("CA_ADDR: must be host:port or an https URL without a path");
  return address;
}

function rootFileOf(variables: Variables, faults: string[]): string | undefined {
  const { CA_ROOT_CA, PILOT_CERT_PROVIDER, PROV_CERT } = variables;
  if (CA_ROOT_CA !== undefined) return CA_ROOT_CA === "SYSTEM" ? undefined : CA_ROOT_CA;
  if (PILOT_CERT_PROVIDER === "custom") return "./etc/certs/root-cert.pem";
  if (PROV_CERT !== undefined) return `${PROV_CERT}/root-cert.pem`;
  if (PILOT_CERT_PROVIDER === "none")
    faults.push("CA_ROOT_CA: is required with PILOT_CERT_PROVIDER=none");
  return "./var/run/secrets/istio/root-cert.pem";
}

function requestOf(
  variables: Variables,
  environment: Environment,
  subject: AgentSubject,
): RequestSettings {
  return {
    key: keyOf(variables),
    lifetimeSeconds: Math.trunc(variables.SECRET_TTL / 1000),
    tokenFile: variables.RAMPART_TOKEN_FILE,
    clusterId: variables.ISTIO_META_CLUSTER_ID,
    certSigner: subject.mode === "serving" ? servingSigner : variables.ISTIO_META_CERT_SIGNER,
    purpose: subject.mode === "serving" ? "serving" : "identity",
    headers: variablesWithPrefix(environment, "CA_HEADER_"),
    attemptTimeoutMilliseconds: 10_000,
    impersonates: subject.mode === "node",
  };
}

function servingFaults(variables: Variables): readonly string[] {
  const folder = variables.RAMPART_SERVING_CERTS;
  if (folder === undefined) {
    const isMeant = variables.ISTIO_META_CERT_SIGNER === servingSigner;
    return isMeant
      ? ["ISTIO_META_CERT_SIGNER: for a serving certificate set RAMPART_SERVING_CERTS"]
      : [];
  }
  const others = [
    "OUTPUT_CERTS",
    "RAMPART_WORKLOADS",
    "RAMPART_WORKLOAD_API_SOCKET",
    "ISTIO_META_CERT_SIGNER",
  ] as const;
  const set = others.filter((name) => variables[name]);
  const needs = variables.FILE_MOUNTED_CERTS ? ["FILE_MOUNTED_CERTS"] : [];
  return [...set, ...needs].map((name) => `RAMPART_SERVING_CERTS and ${name} exclude each other`);
}

/** Pilot-agent's default is RSA. Here a key size must ask for RSA. */
function keyOf(variables: Variables): SubjectKeyKind {
  const { ECC_SIGNATURE_ALGORITHM, ECC_CURVE, WORKLOAD_RSA_KEY_SIZE: bits } = variables;
  const isRsa = bits !== undefined && ECC_SIGNATURE_ALGORITHM !== "ECDSA";
  if (isRsa) return { kind: "RSA", bits: Math.max(2048, bits) };
  return { kind: "EC", curve: ECC_CURVE === "P384" ? "P-384" : "P-256" };
}

function federationOf(variables: Variables, faults: string[]): FederatedEndpoint[] {
  const { RAMPART_FEDERATED_BUNDLES: list, TRUST_DOMAIN: own } = variables;
  const known = new Set([own]);
  return list.split(",").flatMap((text) => {
    const entry = text.trim();
    if (entry === "") return [];
    const [name = "", ...rest] = entry.split("=");
    const trustDomain = parseTrustDomain(name);
    const url = rest.join("=");
    const isEndpoint = /^https:\/\/./.test(url) && URL.canParse(url);
    if (!trustDomain || !isEndpoint) {
      faults.push(`RAMPART_FEDERATED_BUNDLES: ${name} must be <trust domain>=<https URL>`);
      return [];
    }
    if (known.has(trustDomain)) {
      faults.push(`RAMPART_FEDERATED_BUNDLES: ${name} is listed twice, or is TRUST_DOMAIN`);
      return [];
    }
    known.add(trustDomain);
    return [{ trustDomain, url }];
  });
}
