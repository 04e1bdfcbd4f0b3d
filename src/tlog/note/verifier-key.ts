import { sha256 } from "@noble/hashes/sha2.js";
import { concatBytes } from "../../foundation/octets.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { type Bytes, Hex } from "../../pki/encoding/bytes.ts";
import { LogError } from "../log-error.ts";

/** The message that a key signs: the text of a note itself, or a witness's message about a checkpoint. */
type KeyUse = "note" | "cosignature";

/** The types of C2SP signed-note and tlog-cosignature that this code knows, both Ed25519. */
const typeOctets: Readonly<Record<KeyUse, number>> = { note: 0x01, cosignature: 0x04 };

const publicKeyOctets = 32;

/** An Ed25519 public key under a name. */
export interface VerifierKey {
  readonly name: string;
  readonly use: KeyUse;
  /** The four octets by which a signature line names its key. */
  readonly keyId: Bytes;
  readonly publicKey: Bytes;
}

/** Makes, formats and parses verifier keys. */
export const VerifierKey = {
  /**
   * Makes the verifier key of a signer, with the key id that its name, use and public key determine. The public key is
   * not checked.
   * @throws LogError `form` for a text that cannot name a key.
   */
  create(name: string, use: KeyUse, publicKey: Bytes): VerifierKey {
    if (!isKeyName(name)) throw new LogError("form", "not the name of a key");
    return { name, use, keyId: keyIdOf(name, use, publicKey), publicKey };
  },

  /** `<name>+<hexadecimal key id>+<base64 of type and public key>` */
  format({ name, use, keyId, publicKey }: VerifierKey): string {
    const octets = concatBytes(Uint8Array.of(typeOctets[use]), publicKey);
    return `${name}+${Hex.format(keyId)}+${Base64.format(octets)}`;
  },

  /**
   * Parses a verifier key in the form that {@link VerifierKey.format} writes.
   * @throws LogError `form` for any other text, another algorithm, or an id that is not the key's.
   */
  parse(text: string): VerifierKey {
    const [name = "", id = "", ...rest] = text.split("+");
    // The base64 may contain a plus.
    const octets = Base64.parse(rest.join("+"));
    const use = (["note", "cosignature"] as const).find((each) => typeOctets[each] === octets?.[0]);
    if (!octets || !use || octets.length !== 1 + publicKeyOctets) {
      throw new LogError("form", "not the verifier key of an Ed25519 signer");
    }
    const key = VerifierKey.create(name, use, octets.slice(1));
    if (Hex.format(key.keyId) === id) return key;
    throw new LogError("form", "a verifier key with the id of another one");
  },

  /** A new key. The private half can be exported once, to seal it. */
  async generate(): Promise<CryptoKeyPair> {
    return (await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"])) as CryptoKeyPair;
  },

  /** The 32 octets of a public key. */
  async raw(key: CryptoKey): Promise<Bytes> {
    return new Uint8Array((await crypto.subtle.exportKey("raw", key)) as ArrayBuffer);
  },
};

function keyIdOf(name: string, use: KeyUse, publicKey: Bytes): Bytes {
  const prefix = new TextEncoder().encode(`${name}\n`);
  const octets = concatBytes(prefix, Uint8Array.of(typeOctets[use]), publicKey);
  return sha256(octets).slice(0, 4) as Bytes;
}

/** Whether the text may name a key: not empty, no white space of Unicode, no plus, no control character or U+FFFD. */
export function isKeyName(name: string): boolean {
  return name !== "" && !/[\s\u0085+]/.test(name) && !hasControls(name);
}

/** Whether a text has characters that a note must not have. U+FFFD stands for octets that are not UTF-8. */
export function hasControls(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a note may have none but newlines
  return /[\u0000-\u0009\u000b-\u001f\ufffd]/.test(text);
}

const algorithm = "Ed25519";

/** Whether the signature is by this key; `false` also for octets that are not a public key. */
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

/** Signs with Ed25519 (RFC 8032). @returns 64 octets. */
export async function signEd25519(key: CryptoKey, message: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.sign(algorithm, key, message));
}
