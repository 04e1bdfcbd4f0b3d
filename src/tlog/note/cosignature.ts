import { concatBytes } from "../../foundation/octets.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { LogError } from "../log-error.ts";
import { signEd25519, verifyEd25519 } from "./ed25519.ts";
import { claims, type NoteSignature, type SignedNote } from "./note.ts";
import { createVerifierKey, type VerifierKey } from "./verifier-key.ts";

const timeOctets = 8;

/** The message of an Ed25519 cosignature (C2SP tlog-cosignature). It does not name the cosigner. */
function messageOf(text: string, seconds: bigint): Bytes {
  return new TextEncoder().encode(`cosignature/v1\ntime ${seconds}\n${text}`) as Bytes;
}

/** Cosigns checkpoints as a witness. */
export interface Cosigner {
  readonly key: VerifierKey;
  readonly cosign: (text: string, now: Date) => Promise<NoteSignature>;
}

export function createCosigner(name: string, privateKey: CryptoKey, publicKey: Bytes): Cosigner {
  const key = createVerifierKey(name, "cosignature", publicKey);
  return {
    key,
    cosign: async (text, now) => {
      const seconds = BigInt(Math.floor(now.getTime() / 1000));
      const time = new Uint8Array(timeOctets);
      new DataView(time.buffer).setBigUint64(0, seconds);
      const signature = await signEd25519(privateKey, messageOf(text, seconds));
      return { name, keyId: key.keyId, signature: concatBytes(time, signature) };
    },
  };
}

/**
 * When a witness cosigned a checkpoint; `undefined` when it did not.
 *
 * @throws LogError `signature` when a cosignature under its key is wrong.
 */
export async function cosignedAt(note: SignedNote, key: VerifierKey): Promise<Date | undefined> {
  let latest: Date | undefined;
  for (const each of note.signatures.filter((one) => claims(one, key))) {
    const at = await timeOf(note.text, each, key);
    if (!latest || at > latest) latest = at;
  }
  return latest;
}

/** The instant of one cosignature. @throws LogError `signature` */
export async function timeOf(
  text: string,
  { signature }: NoteSignature,
  { publicKey }: VerifierKey,
): Promise<Date> {
  if (signature.length > timeOctets) {
    const seconds = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
    const message = messageOf(text, seconds);
    if (await verifyEd25519(publicKey, signature.slice(timeOctets), message)) {
      return new Date(Number(seconds) * 1000);
    }
  }
  throw new LogError("signature", "the cosignature is not the witness's");
}
