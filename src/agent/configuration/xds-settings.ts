import { isIPv4 } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { parseSocketAddress } from "../../foundation/addresses.ts";
import {
  type ConnectionFiles,
  clientCertificateIn,
  plaintextPort,
  serverNameOf,
} from "./ca-settings.ts";
import { type Environment, type Variables, variablesWithPrefix } from "./environment.ts";

/** The settings of the XDS proxy, or `undefined` if no address of istiod is given. */
export function xdsSettingsOf(variables: Variables, environment: Environment, faults: string[]) {
  const { PROXY_CONFIG, DISCOVERY_ADDRESS } = variables;
  const address = DISCOVERY_ADDRESS ?? PROXY_CONFIG.discoveryAddress;
  if (address === undefined) return undefined;
  const variable = DISCOVERY_ADDRESS ? "DISCOVERY_ADDRESS" : "PROXY_CONFIG.discoveryAddress";
  const parsed = parseSocketAddress(address);
  if (parsed === undefined) {
    faults.push(`${variable}: must be host:port`);
    return undefined;
  }
  if (variables.RAMPART_WORKLOADS !== undefined) {
    faults.push(`${variable}: a node's agent has no XDS proxy, because it has no Envoy of its own`);
  }
  const { host, port } = parsed;
  if (port === plaintextPort && !PROXY_CONFIG.isPlaintext) {
    faults.push(`${variable}: port ${plaintextPort} takes controlPlaneAuthPolicy: NONE`);
  }
  const istiod = {
    address,
    /** Without TLS there is no token either: anybody on the way could take it. */
    isPlaintext: PROXY_CONFIG.isPlaintext,
    files: {
      rootFile: rootFileOf(variables, faults),
      clientCertificate: clientCertificateOf(variables),
      serverName: variables.ISTIOD_SAN ?? serverNameOf(host),
    },
    /** A file of roots that takes the place of the usual one if it exists. */
    preferredRootFile:
      variables.XDS_ROOT_CA === undefined ? "./etc/certs/root-cert.pem" : undefined,
    tokenFile: variables.RAMPART_TOKEN_FILE,
    headers: lowerCased({
      clusterid: variables.ISTIO_META_CLUSTER_ID,
      ...variablesWithPrefix(environment, "XDS_HEADER_"),
    }),
  };
  return { socket: xdsSocketOf(variables), istiod };
}

export type XdsSettings = Readonly<NonNullable<ReturnType<typeof xdsSettingsOf>>>;

export type IstiodSettings = Readonly<XdsSettings["istiod"]>;

/** The probe of the workload, which istiod learns of through the XDS proxy. */
export function healthSettingsOf(variables: Variables) {
  const { PROXY_CONFIG, REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION: isLocalhost } = variables;
  const { readinessProbe: probe } = PROXY_CONFIG;
  if (!probe) return undefined;
  const host = isLocalhost ? "localhost" : (addressesOf(variables)[0] ?? "localhost");
  return { probe, addresses: { host, localAddress: probeSourceOf(host) } };
}

export type HealthSettings = NonNullable<ReturnType<typeof healthSettingsOf>>;

/** The default target of probes, and their source. */
export type ProbeAddresses = HealthSettings["addresses"];

/** Istio's iptables rules know it. There is none for IPv6 that every machine has. */
function probeSourceOf(host: string): string | undefined {
  return isIPv4(host) || host === "localhost" ? "127.0.0.6" : undefined;
}

export function xdsSocketOf({ RAMPART_XDS_SOCKET, PROXY_CONFIG }: Variables): string {
  return RAMPART_XDS_SOCKET ?? join(PROXY_CONFIG.configPath, "XDS");
}

/** The order of pilot-agent. */
function rootFileOf(variables: Variables, faults: string[]): string | undefined {
  const { XDS_ROOT_CA, PROV_CERT, FILE_MOUNTED_CERTS, PILOT_CERT_PROVIDER } = variables;
  if (XDS_ROOT_CA !== undefined) return XDS_ROOT_CA === "SYSTEM" ? undefined : XDS_ROOT_CA;
  if (PROV_CERT !== undefined) return join(PROV_CERT, "root-cert.pem");
  const mounted = variables.ISTIO_META_TLS_CLIENT_ROOT_CERT;
  if (FILE_MOUNTED_CERTS && mounted !== undefined) return mounted;
  if (PILOT_CERT_PROVIDER === "none" && !variables.PROXY_CONFIG.isPlaintext) {
    faults.push("XDS_ROOT_CA: is required with PILOT_CERT_PROVIDER=none");
  }
  return "./var/run/secrets/istio/root-cert.pem";
}

function clientCertificateOf(variables: Variables): ConnectionFiles["clientCertificate"] {
  const { PROV_CERT, FILE_MOUNTED_CERTS } = variables;
  if (PROV_CERT !== undefined) return clientCertificateIn(PROV_CERT);
  const { ISTIO_META_TLS_CLIENT_KEY: key, ISTIO_META_TLS_CLIENT_CERT_CHAIN: chain } = variables;
  if (!FILE_MOUNTED_CERTS || key === undefined || chain === undefined) return undefined;
  return { key, chain };
}

/** HTTP/2 has no upper-case names. */
function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
}

/** The address that was given, and those of the machine that others can reach. */
export function addressesOf({ INSTANCE_IP: given }: Variables): readonly string[] {
  const found = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const reachable = found
    .filter(({ internal, address }) => !internal && !/^fe80:|^169\.254\./i.test(address))
    .map(({ address }) => address);
  const all = new Set([...(given === loopback ? [] : [given]), ...reachable]);
  return all.size > 0 ? [...all] : [loopback];
}

/** The default of `INSTANCE_IP`, which no peer can reach. */
const loopback = "127.0.0.1";
