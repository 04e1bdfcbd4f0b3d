/** Where a CA is, and what is spoken to it. */
export interface CaAddress {
  readonly protocol: "connect" | "grpc-web" | "grpc";
  /** Without a path at the end. */
  readonly baseUrl: string;
  /** The name that its certificate must have, if it is not the host's. */
  readonly serverName?: string;
}

const plaintextPort = "15010";
const loopback = /^(127(?:\.\d{1,3}){3}|localhost|\[::1\])$/;

/**
 * Reads `CA_ADDR`. `host:port` is Istio's form and means native gRPC over TLS, or without it on port
 * 15010. A URL is the edge's form and means Connect, or gRPC-Web or gRPC where its scheme begins with
 * `grpc-web+` or `grpc+`. Only a CA on this machine may be spoken to in the clear.
 *
 * @param sanOverride The name that an istiod which was not named by `CA_ADDR` must have.
 * @returns `undefined` for what is neither.
 */
export function parseCaAddress(text: string, sanOverride?: string): CaAddress | undefined {
  const [, prefix, url] = /^(?:(grpc-web|grpc|connect)\+)?(https?:\/\/.+)$/.exec(text) ?? [];
  if (url === undefined) return parseHostAndPort(text, sanOverride);
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const isPlain = parsed?.pathname === "/" && !parsed.search && !parsed.hash && !parsed.username;
  if (!parsed || !isPlain) return undefined;
  if (parsed.protocol === "http:" && !loopback.test(parsed.hostname)) return undefined;
  const protocol = prefix === "grpc" || prefix === "grpc-web" ? prefix : "connect";
  return { protocol, baseUrl: parsed.origin };
}

function parseHostAndPort(text: string, sanOverride?: string): CaAddress | undefined {
  const [, host, port] = /^([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})$/.exec(text) ?? [];
  if (host === undefined || port === undefined || Number(port) > 65_535) return undefined;
  const scheme = port === plaintextPort ? "http" : "https";
  const address = { protocol: "grpc" as const, baseUrl: `${scheme}://${host}:${port}` };
  // A forwarded port of an istiod: its certificate still names the Service.
  const serverName = host.includes("localhost") ? "istiod.istio-system.svc" : sanOverride;
  return serverName === undefined ? address : { ...address, serverName };
}
