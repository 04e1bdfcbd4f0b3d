import { createJsonWebSignatureParser } from "../../src/pki/jose/json-web-signature.ts";
import { readSignedRequest } from "./signed-request.ts";

/** The credentials of a caller. */
export interface Credentials {
  readonly token: string;
  readonly csrPem: string;
}

const p256 = { name: "ECDSA", namedCurve: "P-256" };
const sha256 = { name: "ECDSA", hash: "SHA-256" };

/**
 * The bare WebCrypto calls that no request can avoid: RS256 verify of the token, SPKI import, P-256
 * verify of the CSR, P-256 sign. Everything else is done before the measurement.
 */
export async function createCryptoFloor(
  { token, csrPem }: Credentials,
  tokenKey: CryptoKey,
): Promise<() => Promise<void>> {
  const jws = createJsonWebSignatureParser()(token);
  const csr = readSignedRequest(csrPem, "ieee-p1363");
  const authority = (await crypto.subtle.generateKey(p256, false, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  return async () => {
    const { subtle } = crypto;
    await subtle.verify("RSASSA-PKCS1-v1_5", tokenKey, jws.signature, jws.signedBytes);
    const key = await subtle.importKey("spki", csr.spki, p256, false, ["verify"]);
    const isValid = await subtle.verify(sha256, key, csr.signature, csr.signedBytes);
    await subtle.sign(sha256, authority.privateKey, csr.signedBytes);
    if (!isValid) throw new Error("the CSR of the floor does not verify");
  };
}
