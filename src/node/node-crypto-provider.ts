import {
  constants,
  createPrivateKey,
  type KeyObject,
  sign,
  verify,
  X509Certificate,
} from "node:crypto";
import type { CryptoProvider, SigningKey } from "../pki/crypto-provider.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { Pem } from "../pki/encoding/pem.ts";
import type { HashName, SignatureAlgorithm, SignatureScheme } from "../pki/signature-algorithm.ts";
import { Certificate } from "../pki/x509/certificate.ts";

/**
 * Uses `node:crypto` on the calling thread, because Node's WebCrypto uses a thread pool for every operation, which
 * costs more than most operations.
 *
 * Keys are passed bare and ECDSA signatures as DER: on Node 24, an options object around the key costs as much again as
 * signing does. A `KeyObject` can always be exported, so each one stays in the closure of the function that uses it.
 */
export const nodeCryptoProvider: CryptoProvider = {
  dsaEncoding: "der",
  verify: (spki, scheme, signature, bytes) => {
    // PEM, because creating a KeyObject costs half as much as a verification.
    const input = verificationInput(Pem.format("PUBLIC KEY", spki), scheme);
    try {
      return verify(digestOf(scheme), bytes, input, signature);
    } catch (error) {
      if (error instanceof Error) return undefined;
      throw error;
    }
  },
  unwrapSigningKey: async ({ octets, wrappingKey, parameters }, algorithm) => {
    const pkcs8 = await crypto.subtle.decrypt(parameters, wrappingKey, octets);
    return takeSigningKey(new Uint8Array(pkcs8), algorithm);
  },
  requireReadable,
};

/**
 * Imports a private key, and overwrites `pkcs8` with zeros even if the import fails.
 *
 * @param pkcs8 PKCS#8, DER.
 * @throws Error for what is not a private key of the algorithm.
 */
export function takeSigningKey(pkcs8: Bytes, algorithm: SignatureAlgorithm): SigningKey {
  try {
    const key = createPrivateKey({ key: bufferOf(pkcs8), format: "der", type: "pkcs8" });
    // Only for its check: WebCrypto refuses a key of another type or curve, which node:crypto would use.
    key.toCryptoKey(algorithm.importParameters, false, ["sign"]);
    const digest = digestOf(algorithm);
    return { algorithm, dsaEncoding: "der", sign: (bytes) => sign(digest, bytes, key) };
  } finally {
    pkcs8.fill(0);
  }
}

/** The key, with parameters for PSS; every other scheme takes the bare key. */
function verificationInput(key: string, { signParameters }: SignatureScheme) {
  if (typeof signParameters === "string" || !("saltLength" in signParameters)) return key;
  const { saltLength } = signParameters;
  return { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength };
}

/** A view of the same octets, which node:crypto takes without copying them. */
const bufferOf = ({ buffer, byteOffset, length }: Bytes): Buffer =>
  Buffer.from(buffer, byteOffset, length);

const digests: Readonly<Record<HashName, string>> = {
  "SHA-256": "sha256",
  "SHA-384": "sha384",
  "SHA-512": "sha512",
};

/** The hash as node:crypto names it; `null` for a scheme with a hash of its own. */
const digestOf = ({ hash }: SignatureScheme): string | null => (hash ? digests[hash] : null);

interface OpenSslReading {
  readonly verifier: X509Certificate;
  /** The certificate's public key, which OpenSSL has found to be on its curve. */
  readonly verifyingKey: KeyObject;
}

/** Reads a certificate with OpenSSL, which most verifiers use or descend from. @throws DerError */
export function readWithOpenSsl(der: Bytes): OpenSslReading {
  try {
    const verifier = new X509Certificate(der);
    return { verifier, verifyingKey: verifier.publicKey };
  } catch {
    // OpenSSL's errors say nothing that an operator can use.
    throw new DerError("OpenSSL does not read it");
  }
}

/**
 * Requires that OpenSSL reads an authority's certificate with all its extensions, and accepts it as a CA's.
 *
 * @throws DerError
 */
function requireReadable(der: Bytes): void {
  const { verifier } = readWithOpenSsl(der);
  // A root of version 1 has no extension that marks it as a CA's.
  const { version } = Certificate.parse(der).toBeSigned;
  if (!verifier.ca && version !== 1)
    throw new DerError("OpenSSL does not take it for an authority's");
}
