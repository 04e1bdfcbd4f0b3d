import { join } from "node:path";
import { Host } from "../../foundation/addresses.ts";
import { SocketAddress } from "../../foundation/socket-address.ts";
import { type Environment, type Variables, variablesWithPrefix } from "./environment.ts";
import type { TokenSource } from "./token-source.ts";

/** The CA's address, and which of Connect's protocols it speaks. */
export interface CaAddress {
  readonly protocol: "connect" | "grpc-web" | "grpc";
  /** An origin: no path, no trailing slash. */
  readonly baseUrl: string;
  /** The name that the CA's certificate must have, if that is not the host. */
  readonly serverName?: string;
}

/** The files that authenticate both sides of a TLS connection. Each connection reads them again. */
export interface ConnectionFiles {
  /** A PEM file, or `undefined` for the roots of the system. */
  readonly rootFile: string | undefined;
  /** Not sent if it has expired or cannot be read. */
  readonly clientCertificate: { readonly key: string; readonly chain: string } | undefined;
  /** The name that the server's certificate must have, if that is not the host. */
  readonly serverName: string | undefined;
}

/** A client certificate in a folder, under Istio's names of the files. */
export const clientCertificateIn = (folder: string): ConnectionFiles["clientCertificate"] => ({
  key: join(folder, "key.pem"),
  chain: join(folder, "cert-chain.pem"),
});

/** The CA's address, and the files with which connections to it are verified and authenticated. */
export interface CaConnection {
  readonly address: CaAddress;
  readonly files: ConnectionFiles;
}

const defaultAddress = "istiod.istio-system.svc:15012";

/** The connection to the CA; `undefined` for a malformed address. Adds what is wrong to `faults`. */
export function caConnectionOf(variables: Variables, faults: string[]): CaConnection | undefined {
  const { CA_ADDR, ISTIOD_SAN, PROXY_CONFIG, PROV_CERT } = variables;
  const text = CA_ADDR ?? PROXY_CONFIG.discoveryAddress ?? defaultAddress;
  const address = parseCaAddress(text, CA_ADDR ? undefined : ISTIOD_SAN);
  const rootFile = rootFileOf(variables, faults);
  if (!address) {
    faults.push("CA_ADDR: must be host:port or an https URL without a path");
    return undefined;
  }
  const clientCertificate = PROV_CERT === undefined ? undefined : clientCertificateIn(PROV_CERT);
  return { address, files: { rootFile, clientCertificate, serverName: address.serverName } };
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

/** The port of istiod without TLS. */
export const plaintextPort = 15_010;
const loopback = /^(127(?:\.\d{1,3}){3}|localhost|\[::1\])$/;

/**
 * Parses `CA_ADDR`. `host:port` is Istio's form: native gRPC over TLS, or in plaintext on port 15010. A
 * URL means Connect, or gRPC-Web or gRPC where its scheme begins with `grpc-web+` or `grpc+`. A URL with
 * plaintext must lead to this machine.
 *
 * @param sanOverride The name that istiod's certificate must have, in place of the host.
 * @returns `undefined` for any other text.
 */
export function parseCaAddress(text: string, sanOverride?: string): CaAddress | undefined {
  const [, prefix, url] = /^(?:(grpc-web|grpc|connect)\+)?(https?:\/\/.+)$/.exec(text) ?? [];
  if (url === undefined) return parseHostAndPort(text, sanOverride);
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const isOrigin = parsed?.pathname === "/" && !parsed.search && !parsed.hash && !parsed.username;
  if (!parsed || !isOrigin) return undefined;
  if (parsed.protocol === "http:" && !loopback.test(parsed.hostname)) return undefined;
  const protocol = prefix === "grpc" || prefix === "grpc-web" ? prefix : "connect";
  return { protocol, baseUrl: parsed.origin };
}

function parseHostAndPort(text: string, sanOverride?: string): CaAddress | undefined {
  const parsed = SocketAddress.parse(text);
  if (!parsed) return undefined;
  const { host, port } = parsed;
  const scheme = port === plaintextPort ? "http" : "https";
  const address = {
    protocol: "grpc" as const,
    baseUrl: `${scheme}://${Host.bracketed(host)}:${port}`,
  };
  const serverName = serverNameOf(host) ?? sanOverride;
  return serverName === undefined ? address : { ...address, serverName };
}

/** The name in istiod's certificate behind a port that is forwarded to `localhost`; `undefined` for any other host. */
export const serverNameOf = (host: string): string | undefined =>
  host.includes("localhost") ? "istiod.istio-system.svc" : undefined;

/** The `CertSigner` of a request for a serving certificate. */
export const servingSigner = "serving";

/**
 * What the agent sends with every CSR (token, cluster, signer, headers, lifetime), and the kind of its key. In node mode
 * the requests are for the workloads of the node. All values were checked before.
 */
export function requestSettingsOf(
  variables: Variables,
  environment: Environment,
  mode: "sidecar" | "serving" | "node",
  token: TokenSource,
) {
  const hasCluster = token.kind === "file" || environment["ISTIO_META_CLUSTER_ID"];
  const purpose: CertificatePurpose = mode === "serving" ? "serving" : "identity";
  return {
    key: keyOf(variables),
    lifetimeSeconds: Math.trunc(variables.SECRET_TTL / 1000),
    token,
    /** Empty for none. By default, only a token in a file belongs to a cluster. */
    clusterId: hasCluster ? variables.ISTIO_META_CLUSTER_ID : "",
    certSigner: mode === "serving" ? servingSigner : variables.ISTIO_META_CERT_SIGNER,
    /** A serving certificate has the DNS names that the CA chooses, in place of the SPIFFE ID. */
    purpose,
    headers: variablesWithPrefix(environment, "CA_HEADER_"),
    /** Unlike Istio's agents, which wait for ever for a CA that never answers. */
    attemptTimeoutMilliseconds: 10_000,
    /** Whether the agent is a node proxy, which names the workload in each request. */
    impersonates: mode === "node",
  };
}

/** The fields and headers of a request besides its CSR, and the kind of its key. */
export type RequestSettings = ReturnType<typeof requestSettingsOf>;

/** `identity` means an X509-SVID, `serving` a server certificate with DNS names. */
export type CertificatePurpose = "identity" | "serving";

/** The type of key that the agent generates for its certificates. */
export type SubjectKeyKind =
  | { readonly kind: "EC"; readonly curve: "P-256" | "P-384" }
  | { readonly kind: "RSA"; readonly bits: number };

/** The kind of key: RSA only if a key size is set, although RSA is pilot-agent's default. */
function keyOf(variables: Variables): SubjectKeyKind {
  const { ECC_SIGNATURE_ALGORITHM, ECC_CURVE, WORKLOAD_RSA_KEY_SIZE: bits } = variables;
  const isRsa = bits !== undefined && ECC_SIGNATURE_ALGORITHM !== "ECDSA";
  if (isRsa) return { kind: "RSA", bits: Math.max(2048, bits) };
  return { kind: "EC", curve: ECC_CURVE === "P384" ? "P-384" : "P-256" };
}

/**
 * The URL of the published bundle; `undefined` for `off`. By default it is at the CA's own address, unless that is in
 * plaintext on another machine.
 */
export function bundleUrlOf(url: string | undefined, { baseUrl }: CaAddress): string | undefined {
  if (url === "off") return undefined;
  const { protocol, hostname } = new URL(baseUrl);
  const isSafe = protocol === "https:" || loopback.test(hostname);
  return url ?? (isSafe ? `${baseUrl}/bundle.json` : undefined);
}

/** The URL of the CA's CRLs; `undefined` for `off`. By default it is `crl.pem` beside the bundle, if there is one. */
export function crlUrlOf(
  url: string | undefined,
  bundleUrl: string | undefined,
): string | undefined {
  if (url === "off") return undefined;
  return url ?? URL.parse("crl.pem", bundleUrl)?.href;
}
