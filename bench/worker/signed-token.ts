import { Base64 } from "../../src/pki/encoding/base64.ts";

/** The parts of a token that the crypto floor needs. */
export interface SignedToken {
  readonly signedBytes: Uint8Array<ArrayBuffer>;
  readonly signature: Uint8Array<ArrayBuffer>;
}

export function readSignedToken(token: string): SignedToken {
  const end = token.lastIndexOf(".");
  const signature = Base64.parseUrl(token.slice(end + 1));
  if (!signature) throw new Error("the benchmark needs a compact JWS");
  const signedBytes = new Uint8Array(new TextEncoder().encode(token.slice(0, end)));
  return { signedBytes, signature };
}
