import "reflect-metadata/lite";
import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { Pkcs10CertificateRequest } from "@peculiar/x509";
import { childrenOf, contentOf, inHex, type Octets } from "../../../testkit/der/mutation.ts";

/** A CSR as libraries read it that have no part in the code under test. */
interface RequestFacts {
  readonly spki: Octets;
  readonly publicKey: KeyObject;
}

/** The hash of each signature algorithm, by the content of its OBJECT IDENTIFIER. */
const hashes: Readonly<Record<string, string | null>> = {
  "2a8648ce3d040302": "sha256",
  "2a8648ce3d040303": "sha384",
  "2a8648ce3d040304": "sha512",
  "2a864886f70d01010b": "sha256",
  "2a864886f70d01010c": "sha384",
  "2a864886f70d01010d": "sha512",
  "2b6570": null,
};

/**
 * The key of a CSR, or the reason why it must be refused. `node:crypto` imports the key and verifies the
 * signature.
 */
export function judgeRequest(der: Octets): RequestFacts | string {
  const [info = empty, identifier = empty, signature = empty] = childrenOf(der);
  const [, , spki = empty] = childrenOf(info);
  const [algorithm = empty] = childrenOf(identifier);
  const hash = hashes[inHex(contentOf(algorithm))];
  if (hash === undefined) return "its signature algorithm is unknown";
  const publicKey = importedKey(spki);
  if (!publicKey) return "node:crypto does not import the key";
  if (!isAllowed(publicKey)) return "its key breaks the policy";
  const isSigned = verify(hash, info, publicKey, contentOf(signature));
  return isSigned ? { spki, publicKey } : "node:crypto does not verify the signature";
}

const empty: Octets = Buffer.alloc(0);

/** The public key as `@peculiar/x509` reads it, where it can read the whole CSR. */
export function peculiarKey(der: Octets): Octets | undefined {
  try {
    return Buffer.from(new Pkcs10CertificateRequest(der).publicKey.rawData);
  } catch {
    return undefined;
  }
}

function importedKey(key: Octets): KeyObject | undefined {
  try {
    return createPublicKey({ key, format: "der", type: "spki" });
  } catch {
    return undefined;
  }
}

const namedCurves = new Set(["prime256v1", "secp384r1", "secp521r1"]);

function isAllowed({ asymmetricKeyType, asymmetricKeyDetails = {} }: KeyObject): boolean {
  const { namedCurve = "", modulusLength = 0, publicExponent } = asymmetricKeyDetails;
  if (asymmetricKeyType === "ec") return namedCurves.has(namedCurve);
  if (asymmetricKeyType === "ed25519") return true;
  const isRsa = asymmetricKeyType === "rsa" && publicExponent === 65_537n;
  return isRsa && modulusLength >= 2048 && modulusLength <= 4096;
}
