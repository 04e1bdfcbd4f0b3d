import type { Bytes } from "../../pki/encoding/bytes.ts";

const algorithm = "Ed25519";

/** Whether the signature is this key's; `false` for octets that are no public key too. */
export async function verifyEd25519(
  publicKey: Bytes,
  signature: Bytes,
  message: Bytes,
): Promise<boolean> {
  const key = await crypto.subtle
    .importKey("raw", publicKey, algorithm, false, ["verify"])
    .catch(() => undefined);
  return key !== undefined && crypto.subtle.verify(algorithm, key, signature, message);
}

export async function signEd25519(key: CryptoKey, message: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.sign(algorithm, key, message));
}

/** A new key. The private half can be exported once, to seal it. */
export async function generateEd25519(): Promise<CryptoKeyPair> {
  return (await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"])) as CryptoKeyPair;
}

/** The 32 octets of a public key. */
export async function rawPublicKey(key: CryptoKey): Promise<Bytes> {
  return new Uint8Array((await crypto.subtle.exportKey("raw", key)) as ArrayBuffer);
}
