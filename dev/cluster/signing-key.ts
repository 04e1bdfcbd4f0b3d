import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type KeyObject,
} from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { exportJWK, type JWK } from "jose";
import { OperatorError } from "../../src/foundation/errors.ts";

/** The RSA key with which the development cluster signs ServiceAccount tokens. */
export interface SigningKey {
  /** `kid` as an API server derives it: base64url of the SHA-256 of the SubjectPublicKeyInfo. */
  readonly id: string;
  readonly privateKey: KeyObject;
  readonly publicJwk: JWK;
}

/** The key in `folder`. The first start makes it, so that tokens outlive a restart. */
export async function loadSigningKey(folder: string): Promise<SigningKey> {
  const path = join(folder, "service-account-key.pem");
  const pem = existsSync(path) ? await readFile(path, "utf8") : await storeNewKey(folder, path);
  return await signingKey(parsePrivateKey(pem, path));
}

async function storeNewKey(folder: string, path: string): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)("rsa", { modulusLength: 2048 });
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFile(path, pem, { mode: 0o600, flag: "wx" });
  return pem;
}

function parsePrivateKey(pem: string, path: string): KeyObject {
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "rsa") return key;
    throw new Error(`a key of type ${key.asymmetricKeyType}`);
  } catch (cause) {
    const remedy = "Delete it: the next start makes a new one.";
    throw new OperatorError(`${path} does not hold an RSA private key.\n${remedy}`, { cause });
  }
}

async function signingKey(privateKey: KeyObject): Promise<SigningKey> {
  const publicKey = createPublicKey(privateKey);
  const id = createHash("sha256")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest("base64url");
  const publicJwk = { use: "sig", kid: id, alg: "RS256", ...(await exportJWK(publicKey)) };
  return { id, privateKey, publicJwk };
}
