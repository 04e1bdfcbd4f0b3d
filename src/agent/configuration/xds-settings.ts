import { isIPv4, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { SocketAddress } from "../../foundation/socket-address.ts";
import {
  type ConnectionFiles,
  clientCertificateIn,
  plaintextPort,
  serverNameOf,
} from "./ca-settings.ts";
import { type Environment, type Variables, variablesWithPrefix } from "./environment.ts";
import type { TokenSource } from "./token-source.ts";

/**
 * The socket of the XDS proxy, and how it reaches istiod.
 *
 * @returns `undefined` without an address of istiod, and for a malformed one, which it adds to `faults`.
 */
export function xdsSettingsOf(
  variables: Variables,
  environment: Environment,
  token: TokenSource,
  faults: string[],
) {
  const { PROXY_CONFIG, DISCOVERY_ADDRESS } = variables;
  const address = DISCOVERY_ADDRESS ?? PROXY_CONFIG.discoveryAddress;
  if (address === undefined) return undefined;
  const variable = DISCOVERY_ADDRESS ? "DISCOVERY_ADDRESS" : "PROXY_CONFIG.discoveryAddress";
  const parsed = SocketAddress.parse(address);
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
    /** Whether TLS is off. No token is sent then, because anybody on the way could read it. */
    isPlaintext: PROXY_CONFIG.isPlaintext,
    files: {
      rootFile: rootFileOf(variables, faults),
      clientCertificate: clientCertificateOf(variables),
      serverName: variables.ISTIOD_SAN ?? serverNameOf(host),
    },
    /** A file of roots that is used, if it exists, in place of `rootFile`. */
    preferredRootFile:
      variables.XDS_ROOT_CA === undefined ? "./etc/certs/root-cert.pem" : undefined,
    token,
    headers: lowerCased({
      clusterid: variables.ISTIO_META_CLUSTER_ID,
      ...variablesWithPrefix(environment, "XDS_HEADER_"),
    }),
  };
  return { socket: xdsSocketOf(variables), istiod };
}

/** The settings of the XDS proxy. */
export type XdsSettings = Readonly<NonNullable<ReturnType<typeof xdsSettingsOf>>>;

/** Where istiod is, and how the agent authenticates to it. */
export type IstiodSettings = Readonly<XdsSettings["istiod"]>;

/** The workload's probe, whose result the XDS proxy reports to istiod; `undefined` without one. */
export function healthSettingsOf(variables: Variables) {
  const { PROXY_CONFIG, REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION: isLocalhost } = variables;
  const { readinessProbe: probe } = PROXY_CONFIG;
  if (!probe) return undefined;
  const host = isLocalhost ? "localhost" : (addressesOf(variables)[0] ?? "localhost");
  return { probe, addresses: { host, localAddress: probeSourceOf(host) } };
}

/** The workload's probe, with the addresses that it uses. */
export type HealthSettings = NonNullable<ReturnType<typeof healthSettingsOf>>;

/** The default target of probes, and their source. */
export type ProbeAddresses = HealthSettings["addresses"];

/** The source address of probes, which Istio's iptables rules let pass. IPv6 has no such address on every machine. */
function probeSourceOf(host: string): string | undefined {
  return isIPv4(host) || host === "localhost" ? "127.0.0.6" : undefined;
}

/**
 * The path of the socket at which Envoy reaches the XDS proxy: by default `XDS` in the proxy's folder, as pilot-agent
 * has it.
 */
export function xdsSocketOf({ RAMPART_XDS_SOCKET, PROXY_CONFIG }: Variables): string {
  return RAMPART_XDS_SOCKET ?? join(PROXY_CONFIG.configPath, "XDS");
}

/** The file of roots for istiod, by pilot-agent's order of precedence; `undefined` for the system's roots. */
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

/** Converts names to lower case, as HTTP/2 requires. */
function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
}

/** The address that `INSTANCE_IP` gives, then those of the machine that others can reach; never empty. */
export function addressesOf({ INSTANCE_IP: given }: Variables): readonly string[] {
  const found = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const reachable = found
    .filter(({ internal, address }) => !internal && !/^fe80:|^169\.254\./i.test(address))
    .map(({ address }) => address);
  const all = new Set([...(given === loopback ? [] : [given]), ...reachable]);
  return all.size > 0 ? [...all] : [loopback];
}

/** The loopback address of Envoy's own listeners, as in Istio: of the family of the machine's first address. */
export const localhostOf = (variables: Variables): string =>
  isIPv6(addressesOf(variables)[0] ?? "") ? "::1" : loopback;

/** The default of `INSTANCE_IP`. No peer can reach it, so it does not count as the machine's address. */
const loopback = "127.0.0.1";
