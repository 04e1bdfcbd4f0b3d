import { bracketed, parseSocketAddress } from "../../foundation/text/socket-address.ts";

/** The address of a CA, and the protocol that it speaks. */
export interface CaAddress {
  readonly protocol: "connect" | "grpc-web" | "grpc";
  /** An origin: no path, no trailing slash. */
  readonly baseUrl: string;
  /** The name that the CA's certificate must have, if that is not the host. */
  readonly serverName?: string;
}

const plaintextPort = 15_010;
const loopback = /^(127(?:\.\d{1,3}){3}|localhost|\[::1\])$/;

/**
 * Parses `CA_ADDR`. `host:port` is Istio's form: native gRPC over TLS, or in plaintext on port 15010. A
 * URL means Connect, or gRPC-Web or gRPC where its scheme begins with `grpc-web+` or `grpc+`. A URL with
 * plaintext must lead to this machine.
 *
 * @param sanOverride The name in the certificate of an istiod that `CA_ADDR` does not name.
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
  const parsed = parseSocketAddress(text);
  if (!parsed) return undefined;
  const { host, port } = parsed;
  const scheme = port === plaintextPort ? "http" : "https";
  const address = { protocol: "grpc" as const, baseUrl: `${scheme}://${bracketed(host)}:${port}` };
  // Through a forwarded port, istiod's certificate still names its Service.
  const serverName = host.includes("localhost") ? "istiod.istio-system.svc" : sanOverride;
  return serverName === undefined ? address : { ...address, serverName };
}
