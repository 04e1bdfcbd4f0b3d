import { parseBase64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { Peer } from "../transport/rpc/rpc.ts";

/** The fields of `cf.tls_client_auth` that count (Cloudflare's field reference; docs/explanation/platform.md). */
interface EdgeVerdict {
  readonly tlsClientAuth?: Partial<
    Readonly<Record<"certVerified" | "certRevoked" | "certRFC9440", unknown>>
  >;
}

/**
 * The client certificate, if Cloudflare's edge has verified it against the CA of the zone and found it
 * not revoked. The edge hands the certificate on whatever its verdict, so both fields of the verdict count.
 *
 * Headers do not count: on the way through a zone, anybody can set them.
 */
function edgeCertificateOf(request: Request): Bytes | undefined {
  const { tlsClientAuth: auth } = (request.cf ?? {}) as EdgeVerdict;
  if (auth?.certVerified !== "SUCCESS" || auth.certRevoked !== "0") return undefined;
  const { certRFC9440 } = auth;
  return typeof certRFC9440 === "string" ? parseByteSequence(certRFC9440) : undefined;
}

/** The longest IPv6 address in text. */
const maximumAddressLength = 45;

/** The peer of a request. The edge sets `CF-Connecting-IP` itself, whatever the caller sends. */
export function edgePeerOf(request: Request): Peer {
  const address = request.headers.get("cf-connecting-ip")?.slice(0, maximumAddressLength);
  return { clientCertificate: edgeCertificateOf(request), address };
}

/** A Byte Sequence of RFC 8941 §3.3.5, as RFC 9440 §2.1 uses it: base64 between colons. */
function parseByteSequence(text: string): Bytes | undefined {
  const [, base64] = /^:([A-Za-z0-9+/]+={0,2}):$/.exec(text) ?? [];
  return base64 === undefined ? undefined : parseBase64(base64);
}
