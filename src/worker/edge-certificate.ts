import { parseBase64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";

/** What Cloudflare's edge says of a client certificate, as far as it is read (platform facts, §3). */
interface EdgeVerdict {
  readonly tlsClientAuth?: Partial<
    Readonly<Record<"certVerified" | "certRevoked" | "certRFC9440", unknown>>
  >;
}

/**
 * The client certificate that the edge has verified, against the CA that the zone is configured with,
 * and found not revoked. It fills in the certificate whatever came of that, so both are asked for.
 *
 * Headers are not looked at: on the way through a zone anybody can have set them.
 */
export function edgeCertificateOf(request: Request): Bytes | undefined {
  const { tlsClientAuth: auth } = (request.cf ?? {}) as EdgeVerdict;
  if (auth?.certVerified !== "SUCCESS" || auth.certRevoked !== "0") return undefined;
  const { certRFC9440 } = auth;
  return typeof certRFC9440 === "string" ? parseByteSequence(certRFC9440) : undefined;
}

/** A Byte Sequence of RFC 8941 §3.3.5, as RFC 9440 §2.1 uses it: base64 between colons. */
function parseByteSequence(text: string): Bytes | undefined {
  const [, base64] = /^:([A-Za-z0-9+/]+={0,2}):$/.exec(text) ?? [];
  return base64 === undefined ? undefined : parseBase64(base64);
}
