import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { concatBytes } from "../../foundation/octets.ts";
import { parseBase64 } from "../../pki/encoding/base64.ts";
import { replaceFile } from "../../program/files/atomic-file.ts";
import { readSmallFile, readSmallOctets, unlessMissing } from "../../program/files/small-file.ts";

/** A certificate, its chain, its key and a trust bundle have much less. */
const maximumOctets = 16 * 1024 * 1024;

const algorithm = "aes-256-gcm";
const keyOctets = 32;
const nonceOctets = 12;
const tagOctets = 16;

/** Reads the key of a cache: a file with 32 octets in base64. @throws ConfigurationError */
export async function readCacheKey(file: string): Promise<Uint8Array> {
  const text = await readSmallFile(file, maximumOctets).catch(() => "");
  const key = parseBase64(text.trim());
  if (key?.length === keyOctets) return key;
  throw new ConfigurationError([`RAMPART_CACHE_KEY_FILE: ${file} must hold 32 octets in base64`]);
}

/**
 * Replaces a file, and seals it with AES-256-GCM if there is a key. The name is associated data, so no
 * file can stand in for another.
 */
export async function writeSealed(
  path: string,
  name: string,
  text: string,
  key: Uint8Array | undefined,
): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await replaceFile(path, key ? seal(text, name, key) : text, { mode: 0o600 });
}

/** `undefined` for a missing file. @throws Error for one that was not sealed under this name and key. */
export async function readSealed(
  path: string,
  name: string,
  key: Uint8Array | undefined,
): Promise<string | undefined> {
  const content = await unlessMissing(readSmallOctets(path, maximumOctets));
  if (!content) return undefined;
  return key ? open(content, name, key) : new TextDecoder().decode(content);
}

function seal(text: string, name: string, key: Uint8Array): Uint8Array {
  const nonce = randomBytes(nonceOctets);
  const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(name));
  return concatBytes(nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag());
}

function open(sealed: Uint8Array, name: string, key: Uint8Array): string {
  const nonce = sealed.subarray(0, nonceOctets);
  const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagOctets })
    .setAAD(Buffer.from(name))
    .setAuthTag(sealed.subarray(-tagOctets));
  const text = decipher.update(sealed.subarray(nonceOctets, -tagOctets));
  return Buffer.concat([text, decipher.final()]).toString();
}
