import { readSignedRequest } from "./signed-request.ts";
import { readSignedToken, type SignedToken } from "./signed-token.ts";

/** The credentials of a caller. */
export interface Credentials {
  readonly token: string;
  readonly csrPem: string;
}

/** The audience of the tokens that are measured. */
export const tokenAudience = "sts.amazonaws.com";

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
  const jws = readSignedToken(token);
  const csr = readSignedRequest(csrPem, "ieee-p1363");
  const privateKey = await createSigningKey();
  return async () => {
    const { subtle } = crypto;
    await verify(tokenKey, jws);
    const key = await subtle.importKey("spki", csr.spki, p256, false, ["verify"]);
    const isValid = await subtle.verify(sha256, key, csr.signature, csr.signedBytes);
    await subtle.sign(sha256, privateKey, csr.signedBytes);
    if (!isValid) throw new Error("the CSR of the floor does not verify");
  };
}

/** The same for a JWT-SVID: RS256 verify of the caller's token, P-256 sign of as many octets. */
export async function createTokenFloor(
  { token }: Credentials,
  tokenKey: CryptoKey,
): Promise<() => Promise<void>> {
  const jws = readSignedToken(token);
  const privateKey = await createSigningKey();
  return async () => {
    await verify(tokenKey, jws);
    await crypto.subtle.sign(sha256, privateKey, jws.signedBytes);
  };
}

async function createSigningKey(): Promise<CryptoKey> {
  const uses = ["sign", "verify"];
  const { privateKey } = (await crypto.subtle.generateKey(p256, false, uses)) as CryptoKeyPair;
  return privateKey;
}

async function verify(key: CryptoKey, { signature, signedBytes }: SignedToken): Promise<void> {
  const isValid = await crypto.subtle.verify("RSASSA-PKCS1-v1_5", key, signature, signedBytes);
  if (!isValid) throw new Error("the token of the floor does not verify");
}
