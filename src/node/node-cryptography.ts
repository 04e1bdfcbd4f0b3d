import { constants, createPublicKey, KeyObject, sign, verify, type webcrypto } from "node:crypto";
import type { Cryptography, SignatureParameters } from "../pki/cryptography.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";

/**
 * `node:crypto`, on the thread that calls it: Node's WebCrypto hands every operation to a pool of
 * threads, and that costs more than most of them take.
 */
export const nodeCryptography: Cryptography = {
  // node:crypto takes over no key that WebCrypto would not give away; both are in this process.
  keepsKeys: false,
  verify: (parameters, cryptoKey, signature, bytes) => {
    const { digest, ...options } = schemeOf(parameters, cryptoKey.algorithm);
    return verify(digest, bytes, { key: keyObjectOf(cryptoKey), ...options }, signature);
  },
  verifyBy: (spki, { importParameters, signParameters }, signature, bytes) => {
    const key = publicKeyIn(spki);
    const { digest, ...options } = schemeOf(signParameters, importParameters);
    return key && verify(digest, bytes, { key, ...options }, signature);
  },
  sign: (parameters, cryptoKey, bytes) => {
    const { digest, ...options } = schemeOf(parameters, cryptoKey.algorithm);
    return new Uint8Array(sign(digest, bytes, { key: keyObjectOf(cryptoKey), ...options })).buffer;
  },
};

function publicKeyIn(spki: Bytes): KeyObject | undefined {
  const octets = Buffer.from(spki.buffer, spki.byteOffset, spki.length);
  try {
    return createPublicKey({ key: octets, format: "der", type: "spki" });
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
}

/** A key with its algorithm, as far as a hash may be part of that; it is, for RSA (WebCrypto §20). */
interface HashedAlgorithm {
  readonly name: string;
  readonly hash?: string | { readonly name: string };
}

interface Scheme {
  readonly digest: string | null;
  readonly dsaEncoding?: "ieee-p1363";
  readonly padding?: number;
  readonly saltLength?: number;
}

/** How node:crypto says what WebCrypto says in the parameters of a signature and of its key. */
function schemeOf(parameters: SignatureParameters, key: HashedAlgorithm): Scheme {
  const { name, ...details } = typeof parameters === "string" ? { name: parameters } : parameters;
  const saltLength = "saltLength" in details ? details.saltLength : undefined;
  switch (name) {
    case "ECDSA":
      return {
        digest: digestName("hash" in details ? details.hash : undefined),
        dsaEncoding: "ieee-p1363",
      };
    case "Ed25519":
      return { digest: null };
    case "RSA-PSS":
      return {
        digest: digestName(key.hash),
        padding: constants.RSA_PKCS1_PSS_PADDING,
        ...(saltLength !== undefined && { saltLength }),
      };
    case "RSASSA-PKCS1-v1_5":
      return { digest: digestName(key.hash), padding: constants.RSA_PKCS1_PADDING };
    default:
      throw new Error(`no such signature: ${name}`);
  }
}

const digestNames: Readonly<Record<string, string>> = {
  "SHA-256": "sha256",
  "SHA-384": "sha384",
  "SHA-512": "sha512",
};

function digestName(hashName: HashedAlgorithm["hash"]): string {
  const name = typeof hashName === "string" ? hashName : hashName?.name;
  const digest = digestNames[name ?? ""];
  if (digest) return digest;
  throw new Error(`no such hash: ${name}`);
}

const keyObjects = new WeakMap<webcrypto.CryptoKey, KeyObject>();

/** The same key in the other world, made once. */
function keyObjectOf(key: webcrypto.CryptoKey): KeyObject {
  const known = keyObjects.get(key);
  if (known) return known;
  const keyObject = KeyObject.from(key);
  keyObjects.set(key, keyObject);
  return keyObject;
}
