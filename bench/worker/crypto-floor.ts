import { parseJsonWebSignature } from "../../src/authn/json-web-signature.ts";
import { DerReader, Tag } from "../../src/pki/der-reader.ts";
import { parsePem } from "../../src/pki/pem.ts";
import { fromX509Signature, signatureAlgorithms } from "../../src/pki/signature-algorithm.ts";

/** What a caller sends. */
export interface Credentials {
  readonly token: string;
  readonly csrPem: string;
}

const p256 = { name: "ECDSA", namedCurve: "P-256" };
const sha256 = { name: "ECDSA", hash: "SHA-256" };

/**
 * The bare WebCrypto calls that no request can avoid: RS256 verify of the token, SPKI import, P-256
 * verify of the CSR, P-256 sign. Everything around them is done before the clock starts.
 */
export async function createCryptoFloor(
  { token, csrPem }: Credentials,
  tokenKey: CryptoKey,
): Promise<() => Promise<void>> {
  const jws = parseJsonWebSignature(token);
  const csr = takeApart(csrPem);
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
    if (!isValid) throw new Error("the floor's CSR does not verify");
  };
}

function takeApart(pem: string) {
  const der = parsePem(pem, ["CERTIFICATE REQUEST"]);
  const [algorithm] = signatureAlgorithms["EC-P256"];
  if (!der || !algorithm) throw new Error("the benchmark needs a CSR of a P-256 key");
  const fields = new DerReader(der).enter(Tag.sequence);
  const signedBytes = fields.element(Tag.sequence);
  fields.element(Tag.sequence);
  const signature = fromX509Signature(algorithm, fields.bitStringOctets());
  const info = new DerReader(signedBytes).enter(Tag.sequence);
  info.element(Tag.integer);
  info.element(Tag.sequence);
  return { signedBytes, signature, spki: info.element(Tag.sequence) };
}
