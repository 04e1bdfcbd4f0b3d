import { hostname } from "node:os";
import { jsonIn } from "../../foundation/json-members.ts";
import { SmallFile, unlessMissing } from "../../program/files/small-file.ts";
import {
  type Environment,
  type Variables,
  variablesWithPrefix,
} from "../configuration/environment.ts";
import type { Json } from "./tls-contexts.ts";

/**
 * What pilot-agent derives Envoy's node from: the kind of proxy, variables, addresses, and the pod's labels and
 * annotations.
 */
export interface NodeSources {
  readonly kind: "sidecar" | "router";
  readonly variables: Variables;
  readonly environment: Environment;
  /** The addresses of the machine, the first of which is in the node's id. */
  readonly addresses: readonly string[];
  readonly labels: PodFields | undefined;
  readonly annotations: PodFields | undefined;
}

const localityLabel = "istio-locality";

/** Hidden from istiod: each revision of a Deployment has another value, and would get a configuration of its own. */
const revisionLabel = "pod-template-hash";

/** The node of an Envoy as pilot-agent describes it. */
export function createNode(sources: NodeSources) {
  const { kind, variables, addresses, annotations } = sources;
  const { PROXY_CONFIG, SERVICE_ACCOUNT } = variables;
  const labels = labelsOf(sources);
  const namespace = variables.POD_NAMESPACE || "default";
  const metadata = metadataOf(sources);
  const { WORKLOAD_NAME } = metadata;
  return {
    id: nodeId(kind, variables, addresses[0] ?? "127.0.0.1"),
    cluster: clusterOf(PROXY_CONFIG.serviceCluster, labels, WORKLOAD_NAME, namespace),
    locality: localityOf(labels),
    metadata: {
      ...metadata,
      NAME: variables.POD_NAME || hostname(),
      NAMESPACE: namespace,
      ...(SERVICE_ACCOUNT && { SERVICE_ACCOUNT }),
      INSTANCE_IPS: addresses.join(","),
      ...(Object.keys(labels).length > 0 && { LABELS: labels }),
      ...(annotations && { ANNOTATIONS: annotations }),
      PROXY_CONFIG: proxyConfigOf(variables),
      ENVOY_STATUS_PORT: variables.ENVOY_STATUS_PORT,
      ENVOY_PROMETHEUS_PORT: variables.ENVOY_PROMETHEUS_PORT,
    },
  };
}

/** The description of a proxy for istiod. */
export type EnvoyNode = Readonly<ReturnType<typeof createNode>>;

/**
 * Istio's form of a node id, which istiod requires: `<kind>~<address>~<pod>.<namespace>~<namespace>.svc.cluster.local`.
 * Without `POD_NAME` the pod is this host's name, without `POD_NAMESPACE` the namespace is `default`.
 */
export function nodeId(
  kind: NodeSources["kind"],
  { POD_NAME, POD_NAMESPACE }: Pick<Variables, "POD_NAME" | "POD_NAMESPACE">,
  address: string,
): string {
  const namespace = POD_NAMESPACE || "default";
  const pod = `${POD_NAME || hostname()}.${namespace}`;
  return `${kind}~${address}~${pod}~${namespace}.svc.cluster.local`;
}

function metadataOf({ variables, environment }: NodeSources): Json {
  const { PROXY_CONFIG, ISTIO_META_CLUSTER_ID } = variables;
  const { LABELS: _labels, ...json } = variablesWithPrefix(environment, "ISTIO_METAJSON_");
  const entries = Object.entries(json).flatMap(([, text]) => Object.entries(parseObject(text)));
  return {
    ...variablesWithPrefix(PROXY_CONFIG.proxyMetadata, "ISTIO_META_"),
    ...variablesWithPrefix(environment, "ISTIO_META_"),
    CLUSTER_ID: ISTIO_META_CLUSTER_ID,
    ...Object.fromEntries(entries),
  };
}

/** `PROXY_CONFIG` as given, because istiod reads fields that the agent does not. */
function proxyConfigOf({ PROXY_CONFIG, DISCOVERY_ADDRESS }: Variables): Json {
  const discoveryAddress = DISCOVERY_ADDRESS ?? PROXY_CONFIG.discoveryAddress;
  return { ...PROXY_CONFIG.given, ...(discoveryAddress && { discoveryAddress }) };
}

/** The pod's labels. Those of the kubelet's files take precedence over those of the environment. */
function labelsOf({ environment, labels }: NodeSources): PodFields {
  const { ISTIO_METAJSON_LABELS: text } = environment;
  const given = Object.entries(parseObject(text ?? "")).map(([key, value]) => [key, String(value)]);
  const { [revisionLabel]: _revision, ...rest } = labels ?? {};
  return { ...Object.fromEntries(given), ...rest };
}

/** Parses a JSON object. Like pilot-agent, it reads any other JSON value, and text that is not JSON, as `{}`. */
function parseObject(text: string): Json {
  const value = jsonIn(text);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function clusterOf(
  given: string | undefined,
  labels: PodFields,
  workload: unknown,
  namespace: string,
): string {
  if (given !== undefined && given !== "istio-proxy") return given;
  const { app } = labels;
  return `${app ?? (workload || "istio-proxy")}.${namespace}`;
}

/** `region/zone/subzone`, with dots where a label may have no slashes. */
function localityOf(labels: PodFields): Json {
  const text = labels[localityLabel] ?? "";
  const parts = text.includes("/") ? text.split("/") : text.split(".");
  const names = ["region", "zone", "sub_zone"];
  return Object.fromEntries(names.flatMap((name, i) => (parts[i] ? [[name, parts[i]]] : [])));
}

/** Kubernetes limits the annotations of a pod to 256 KiB; in the file they are longer by escapes. */
const maximumOctets = 1024 * 1024;

type PodFields = Readonly<Record<string, string>>;

/**
 * Reads a pod's labels or annotations from a file of the downward API.
 *
 * @returns `undefined` if there is no such file, as outside of Kubernetes.
 * @throws OperatorError for a file that cannot be read.
 */
export async function readPodFields(path: string): Promise<PodFields | undefined> {
  const text = await unlessMissing(SmallFile.read(path, maximumOctets));
  return text === undefined ? undefined : parsePodFields(text);
}

/** Parses lines of `key="value"`, the value quoted as Go does it. It skips other lines, as pilot-agent does. */
export function parsePodFields(text: string): PodFields {
  const lines = text.split("\n").map((line) => /^([^=]+)="(.*)"$/.exec(line));
  return Object.fromEntries(
    lines.flatMap((match) => (match ? [[match[1] ?? "", unquote(match[2] ?? "")]] : [])),
  );
}

const plain: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

function unquote(text: string): string {
  const escapes = /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))/g;
  return text.replace(escapes, (_all, octet, short, long, letter) => {
    const code = octet ?? short ?? long;
    return code ? String.fromCodePoint(Number.parseInt(code, 16)) : (plain[letter] ?? letter);
  });
}
