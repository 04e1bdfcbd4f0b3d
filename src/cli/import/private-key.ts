import { createPrivateKey, type KeyObject } from "node:crypto";
import { signatureAlgorithmOf } from "../../pki/signing-authority.ts";
import type { SubjectPublicKey } from "../../pki/subject-public-key.ts";
import { Obstacle } from "../obstacle.ts";
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
 * @throws Obstacle that never says what was in the file, only what kind of thing it was.
 */
export function readPrivateKey(source: Source): KeyObject {
  const refuse = (why: string): Obstacle =>
    new Obstacle(`${source.name}: failed to parse private key PEM: ${why}`);
  // `openssl ecparam -genkey` writes the curve before the key.
  const blocks = pemBlocks(source).filter(({ label }) => label !== "EC PARAMETERS");
  const [block, another] = blocks;
  if (!block) throw refuse("there is no PEM block");
  if (blocks.some(isEncrypted)) {
    throw refuse("the key is encrypted; decrypt it first: openssl pkey -in KEY -out DECRYPTED");
  }
  if (another) throw refuse(`there are ${blocks.length} PEM blocks, and it must be one key`);
  const type = encodings.get(block.label);
  if (!type) throw refuse(`it is a block of ${block.label}`);
  try {
    return createPrivateKey({ key: Buffer.from(block.der), format: "der", type });
  } catch {
    throw refuse(`the block is no key of ${block.label}`);
  }
}

const isEncrypted = (block: PemBlock): boolean =>
  block.isEncrypted || block.label === "ENCRYPTED PRIVATE KEY";

/**
 * The same key as WebCrypto takes it, to sign as an authority with this public key does.
 *
 * @throws Obstacle for a key whose parts do not fit each other, which OpenSSL lets pass.
 */
export async function importExtractable(
  key: KeyObject,
  publicKey: SubjectPublicKey,
  { name }: Source,
): Promise<CryptoKey> {
  const pkcs8 = new Uint8Array(key.export({ type: "pkcs8", format: "der" }));
  const { importParameters } = signatureAlgorithmOf(publicKey);
  try {
    return await crypto.subtle.importKey("pkcs8", pkcs8, importParameters, true, ["sign"]);
  } catch {
    throw new Obstacle(`${name}: failed to parse private key PEM: its parts do not fit each other`);
  }
}
