import { ConfigurationError } from "../foundation/errors.ts";
import { ServiceAccount, SpiffeId, TrustDomain } from "../pki/spiffe-id.ts";
import {
  bundleUrlOf,
  caConnectionOf,
  crlUrlOf,
  requestSettingsOf,
  servingSigner,
} from "./configuration/ca-settings.ts";
import {
  type Environment,
  missedVariables,
  parseVariables,
  unknownVariables,
  unsupportedVariables,
  type Variables,
} from "./configuration/environment.ts";
import { type AwsTokens, tokenSourceOf } from "./configuration/token-source.ts";
import { healthSettingsOf, xdsSettingsOf } from "./configuration/xds-settings.ts";

/**
 * The identities of an agent: one of its own, or those of the workloads that a feed lists. In serving mode the
 * agent's own certificate is that of a TLS server, with the DNS names that the CA grants to its account.
 */
export type AgentSubject =
  | { readonly mode: "sidecar" | "serving"; readonly spiffeId: SpiffeId }
  | { readonly mode: "node"; readonly feed: string; readonly lingerMilliseconds: number };

/** A foreign trust domain and its bundle endpoint. */
export interface FederatedEndpoint {
  readonly trustDomain: TrustDomain;
  readonly url: string;
  /**
   * The identity of an endpoint of the profile https_spiffe, and the file with the bundle that verifies the endpoint until
   * one has been fetched (SPIFFE Federation §5.2.2). Without it the profile is https_web (§5.2.1).
   */
  readonly svid?: { readonly spiffeId: string; readonly bundleFile: string };
}

/**
 * Reads the environment. The function is long because each value that it returns says what it means.
 *
 * @param awsTokens Creates the token source `aws`, which is a fault without it.
 * @throws ConfigurationError with one line for each fault.
 */
export function parseConfiguration(
  environment: Environment,
  awsTokens: AwsTokens = () => undefined,
) {
  const variables = parseVariables(environment);
  const { refused, ignored } = unsupportedVariables;
  const faults = missedVariables(refused, environment).map(({ name, why }) => `${name}: ${why}`);
  const subject = subjectOf(variables, faults);
  const ca = caConnectionOf(variables, faults);
  const federation = federationOf(variables, faults);
  const jwtFiles = jwtFilesOf(variables, faults);
  const bundleUrl = ca && bundleUrlOf(variables.RAMPART_BUNDLE_URL, ca.address);
  const token = tokenSourceOf(variables, faults, awsTokens);
  const xds = xdsSettingsOf(variables, environment, token, faults);
  faults.push(...contradictions(variables, subject), ...servingFaults(variables));
  if (subject === undefined || ca === undefined || faults.length > 0) {
    throw new ConfigurationError(faults);
  }
  return {
    trustDomain: variables.TRUST_DOMAIN,
    subject,
    ca,
    request: requestSettingsOf(variables, environment, subject.mode, token),
    /** A certificate is renewed when this share of its life is left, plus or minus the jitter. */
    renewal: {
      graceRatio: variables.SECRET_GRACE_PERIOD_RATIO,
      jitter: variables.SECRET_GRACE_PERIOD_RATIO_JITTER,
    },
    isPkcs8: variables.PKCS8_KEY,
    bundleUrl,
    /** Whether the URL is the default and the CA may be an istiod, which publishes no bundle. */
    isBundleAssumed: !variables.RAMPART_BUNDLE_URL && ca.address.protocol === "grpc",
    crlUrl: crlUrlOf(variables.RAMPART_CRL_URL, bundleUrl),
    longestBundleRefreshSeconds: Math.max(1, variables.RAMPART_BUNDLE_REFRESH / 1000),
    federation,
    /** The roots for TLS to the endpoints of `federation`; by default the system's. */
    federatedRootFile: variables.RAMPART_FEDERATED_ROOT_CA,
    sdsSocket: variables.RAMPART_SDS_SOCKET,
    workloadApiSocket: variables.RAMPART_WORKLOAD_API_SOCKET,
    xds,
    /** The workload's health probe; `undefined` without an XDS connection to report its result on. */
    health: xds && healthSettingsOf(variables),
    statusAddress: variables.RAMPART_STATUS_ADDR,
    fileDebounceMilliseconds: variables.FILE_DEBOUNCE_DURATION,
    /** Whether all certificates come from files and none from the CA. */
    isFileMounted: variables.FILE_MOUNTED_CERTS,
    crlFile: variables.PILOT_ENABLE_CA_CRL ? "/var/run/secrets/istio/crl/ca-crl.pem" : undefined,
    output: outputOf(variables),
    jwtFiles,
    cache: variables.RAMPART_CACHE
      ? { folder: variables.RAMPART_CACHE, keyFile: variables.RAMPART_CACHE_KEY_FILE }
      : undefined,
    ignoredVariables: [...missedVariables(ignored, environment), ...unknownVariables(environment)],
  };
}

/** The configuration of an agent, parsed and complete. */
export type AgentConfiguration = Readonly<ReturnType<typeof parseConfiguration>>;

/** The folder that keeps certificates for the next start. With a key file they are sealed. */
export type CacheSettings = NonNullable<AgentConfiguration["cache"]>;

/** When certificates are renewed and retried. */
export type RenewalPolicy = AgentConfiguration["renewal"];

function contradictions(variables: Variables, subject: AgentSubject | undefined): string[] {
  const { PROV_CERT, FILE_MOUNTED_CERTS, OUTPUT_CERTS, RAMPART_JWT_FILES } = variables;
  const faults: string[] = [];
  if (PROV_CERT && FILE_MOUNTED_CERTS) {
    faults.push("PROV_CERT and FILE_MOUNTED_CERTS exclude each other");
  }
  if (subject?.mode === "node" && (OUTPUT_CERTS || RAMPART_JWT_FILES)) {
    faults.push("OUTPUT_CERTS and RAMPART_JWT_FILES: are of one identity, and a node has many");
  }
  return faults;
}

function subjectOf(variables: Variables, faults: string[]): AgentSubject | undefined {
  const { RAMPART_WORKLOADS: feed, RAMPART_LINGER: lingerMilliseconds } = variables;
  if (feed !== undefined) return { mode: "node", feed, lingerMilliseconds };
  const account = ServiceAccount.parse(variables.POD_NAMESPACE, variables.SERVICE_ACCOUNT);
  const mode = variables.RAMPART_SERVING_CERTS === undefined ? "sidecar" : "serving";
  if (account) return { mode, spiffeId: SpiffeId.ofWorkload(variables.TRUST_DOMAIN, account) };
  faults.push("POD_NAMESPACE and SERVICE_ACCOUNT: must name the workload's ServiceAccount");
  return undefined;
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
    "RAMPART_JWT_FILES",
    "RAMPART_WORKLOADS",
    "RAMPART_WORKLOAD_API_SOCKET",
    "ISTIO_META_CERT_SIGNER",
  ] as const;
  const set = others.filter((name) => variables[name]);
  const needs = variables.FILE_MOUNTED_CERTS ? ["FILE_MOUNTED_CERTS"] : [];
  return [...set, ...needs].map((name) => `RAMPART_SERVING_CERTS and ${name} exclude each other`);
}

function federationOf(variables: Variables, faults: string[]): FederatedEndpoint[] {
  const { RAMPART_FEDERATED_BUNDLES: list, TRUST_DOMAIN: own } = variables;
  const known = new Set([own]);
  return list.split(",").flatMap((text) => {
    const entry = text.trim();
    if (entry === "") return [];
    const [name = "", ...rest] = entry.split("=");
    const trustDomain = TrustDomain.parse(name);
    const [url = "", spiffeId, bundleFile, ...more] = rest.join("=").split(/ +/);
    const isEndpoint = /^https:\/\/./.test(url) && URL.canParse(url) && more.length === 0;
    if (!trustDomain || !isEndpoint) {
      const hint = TrustDomain.hint(name);
      faults.push(`RAMPART_FEDERATED_BUNDLES: ${name} must be <trust domain>=<https URL>${hint}`);
      return [];
    }
    const isOfDomain =
      spiffeId?.startsWith(`spiffe://${trustDomain}/`) && SpiffeId.isWorkload(spiffeId);
    if (spiffeId !== undefined && (!isOfDomain || !bundleFile)) {
      faults.push(
        `RAMPART_FEDERATED_BUNDLES: ${name} must have a SPIFFE ID of that trust domain and the file of its first bundle after the URL, or neither`,
      );
      return [];
    }
    if (known.has(trustDomain)) {
      faults.push(`RAMPART_FEDERATED_BUNDLES: ${name} is listed twice, or is TRUST_DOMAIN`);
      return [];
    }
    known.add(trustDomain);
    const svid = spiffeId && bundleFile ? { svid: { spiffeId, bundleFile } } : {};
    return [{ trustDomain, url, ...svid }];
  });
}

/** How long Envoy drains at the end: for a fixed time, or until it has no connection left. */
export type DrainPolicy =
  | { readonly kind: "fixed"; readonly milliseconds: number }
  /** Until no connection is left, but for at least this long (`EXIT_ON_ZERO_ACTIVE_CONNECTIONS`). */
  | { readonly kind: "until-idle"; readonly minimumMilliseconds: number };

const usualDrainMilliseconds = 5_000;

/** How long a supervised proxy drains. As in pilot-agent, a drain until no connection is left has no maximum. */
export function drainPolicyOf(variables: Variables): DrainPolicy {
  const { TERMINATION_DRAIN_DURATION_SECONDS: seconds, PROXY_CONFIG } = variables;
  if (variables.EXIT_ON_ZERO_ACTIVE_CONNECTIONS) {
    return { kind: "until-idle", minimumMilliseconds: variables.MINIMUM_DRAIN_DURATION };
  }
  const given = seconds === undefined ? PROXY_CONFIG.terminationDrainMilliseconds : seconds * 1000;
  return { kind: "fixed", milliseconds: given ?? usualDrainMilliseconds };
}

const maximumJwtFiles = 8;
const jwtFilePattern = /^([^=]+)=(\S{1,255})$/;

function jwtFilesOf(variables: Variables, faults: string[]) {
  const entries = variables.RAMPART_JWT_FILES.split(",").map((entry) => entry.trim());
  const files = entries.filter(Boolean).flatMap((entry) => {
    const [, path, audience] = jwtFilePattern.exec(entry) ?? [];
    return path && audience ? [{ path, audience, owner: ownerOf(variables) }] : [];
  });
  const isWhole = files.length === entries.filter(Boolean).length;
  const paths = new Set(files.map(({ path }) => path));
  if (!isWhole || files.length > maximumJwtFiles || paths.size < files.length) {
    faults.push(
      `RAMPART_JWT_FILES: must be 1 to ${maximumJwtFiles} of <file>=<audience>, each file once`,
    );
  }
  return files;
}

/** A file with a JWT-SVID for one audience. */
export type JwtFile = Readonly<ReturnType<typeof jwtFilesOf>[number]>;

function ownerOf({ RAMPART_OUTPUT_OWNER: owner }: Variables) {
  const [uid = 0, gid = 0] = owner?.split(":").map(Number) ?? [];
  return owner === undefined ? undefined : { uid, gid };
}

/**
 * The files of the agent's own certificate. The files of a server change together, because it must not load one
 * without the other.
 */
function outputOf(variables: Variables) {
  const { OUTPUT_CERTS, RAMPART_SERVING_CERTS } = variables;
  const folder = RAMPART_SERVING_CERTS ?? OUTPUT_CERTS;
  if (folder === undefined) return undefined;
  return {
    folder,
    isAtomic: RAMPART_SERVING_CERTS !== undefined || variables.RAMPART_OUTPUT_ATOMIC,
    // In a pod, other containers read the files from a volume as other users.
    mode: variables.KUBERNETES_SERVICE_HOST ? 0o644 : 0o600,
    owner: ownerOf(variables),
    /** A command line for `sh`, run after each change. */
    onChange: variables.RAMPART_ON_CHANGE,
  };
}

/** A folder of PEM files, for programs without SDS or the Workload API. */
export type OutputSettings = Readonly<NonNullable<ReturnType<typeof outputOf>>>;

/** The address at which an agent with this environment serves its status. @throws ConfigurationError */
export const statusAddressOf = (environment: Environment) =>
  parseVariables(environment).RAMPART_STATUS_ADDR;
