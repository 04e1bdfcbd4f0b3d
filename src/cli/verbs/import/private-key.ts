import { createPrivateKey, type KeyObject } from "node:crypto";
import { OperatorError } from "../../../foundation/errors.ts";
import { signatureAlgorithmOf } from "../../../pki/signature-algorithm.ts";
import type { SubjectPublicKey } from "../../../pki/x509/subject-public-key.ts";
import { type PemBlock, pemBlocks } from "./pem-blocks.ts";
import type { Source } from "./plugged-in-material.ts";

/** The encodings that istiod reads, by their PEM labels. */
const encodings: ReadonlyMap<string, "pkcs1" | "sec1" | "pkcs8"> = new Map([
  ["RSA PRIVATE KEY", "pkcs1"],
  ["EC PRIVATE KEY", "sec1"],
  ["PRIVATE KEY", "pkcs8"],
]);

/**
 * The one private key of a file.
 *
 * @throws OperatorError that names the kind of content, never the content.
 */
export function readPrivateKey(source: Source): KeyObject {
  const refuse = (why: string): OperatorError =>
    new OperatorError(`${source.name}: failed to parse private key PEM: ${why}`);
  // `openssl ecparam -genkey` writes the curve before the key.
  const blocks = pemBlocks(source).filter(({ label }) => label !== "EC PARAMETERS");
  const [block, another] = blocks;
  if (!block) throw refuse("there is no PEM block");
  if (blocks.some(isEncrypted)) {
    throw refuse("the key is encrypted; decrypt it first: openssl pkey -in KEY -out DECRYPTED");
  }
  if (another) throw refuse(`it holds ${blocks.length} PEM blocks, not one key`);
  const type = encodings.get(block.label);
  if (!type) throw refuse(`it is a block of ${block.label}`);
  try {
    return createPrivateKey({ key: Buffer.from(block.der), format: "der", type });
  } catch {
    throw refuse(`the block is not a valid ${block.label}`);
  }
}

const isEncrypted = (block: PemBlock): boolean =>
  block.isEncrypted || block.label === "ENCRYPTED PRIVATE KEY";

/**
 * The key as an extractable `CryptoKey`, for the signature algorithm of an authority with this public key.
 *
 * @throws OperatorError for a key whose numbers contradict each other, which OpenSSL accepts.
 */
export async function importExtractable(
  key: KeyObject,
  publicKey: SubjectPublicKey,
  { name }: Source,
): Promise<CryptoKey> {
  const { importParameters } = signatureAlgorithmOf(publicKey);
  const misfit = new OperatorError(
    `${name}: failed to parse private key PEM: its numbers contradict each other`,
  );
  if (key.asymmetricKeyType === "rsa" && !rsaPartsFit(key)) throw misfit;
  try {
    // JWK has one encoding where PKCS#8 has several.
    const jwk = key.export({ format: "jwk" });
    return await crypto.subtle.importKey("jwk", jwk, importParameters, true, ["sign"]);
  } catch {
    throw misfit;
  }
}

/**
 * Whether the numbers of RFC 8017 §3.2 are consistent. OpenSSL signs with some keys that are not;
 * BoringSSL, which opens the key later, refuses them.
 */
function rsaPartsFit(key: KeyObject): boolean {
  const jwk = key.export({ format: "jwk" });
  const number = (part: string | undefined): bigint =>
    BigInt(`0x0${Buffer.from(part ?? "", "base64url").toString("hex")}`);
  const [n, e, d] = [number(jwk.n), number(jwk.e), number(jwk.d)];
  const [p, q] = [number(jwk.p), number(jwk.q)];
  if (p < 2n || q < 2n || p * q !== n) return false;
  const exponentFits = (prime: bigint, exponent: string | undefined): boolean =>
    (d * e) % (prime - 1n) === 1n && number(exponent) === d % (prime - 1n);
  return exponentFits(p, jwk.dp) && exponentFits(q, jwk.dq) && (number(jwk.qi) * q) % p === 1n;
}
