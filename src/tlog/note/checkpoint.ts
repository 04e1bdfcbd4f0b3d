import { Base64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { LogError } from "../log-error.ts";
import { Hash, type Tree } from "../merkle.ts";
import { claims, type NoteSignature, type NoteSigner, parseNote, type SignedNote } from "./note.ts";
import { signEd25519, VerifierKey, verifyEd25519 } from "./verifier-key.ts";

/** The head of a log (C2SP tlog-checkpoint). */
export interface Checkpoint extends Tree {
  readonly origin: string;
}

/** Formats, parses and signs checkpoints. */
export const Checkpoint = {
  /** The text that the log and its witnesses sign. */
  format({ origin, size, root }: Checkpoint): string {
    return `${origin}\n${size}\n${Base64.format(root)}\n`;
  },

  /**
   * Reads the text of a checkpoint. Extension lines are accepted and have no meaning.
   *
   * @throws LogError `form`
   */
  parse(text: string): Checkpoint {
    const [origin = "", size = "", base64 = "", ...rest] = text.split("\n");
    const root = Base64.parse(base64);
    const isWhole = rest.length > 0 && rest.at(-1) === "" && !rest.slice(0, -1).includes("");
    if (!isWhole || origin === "" || root?.length !== Hash.octets) {
      throw new LogError("form", "not a checkpoint");
    }
    return { origin, size: parseSize(size), root };
  },

  /** The signer of a log's checkpoints. Its name is the origin of the log. */
  createSigner(origin: string, privateKey: CryptoKey, publicKey: Bytes): NoteSigner {
    const key = VerifierKey.create(origin, "note", publicKey);
    return {
      key,
      sign: async (text) => ({
        name: origin,
        keyId: key.keyId,
        signature: await signEd25519(privateKey, new TextEncoder().encode(text) as Bytes),
      }),
    };
  },
};

/** A size or an index in decimal without leading zeros. @throws LogError `form` */
export function parseSize(text: string): number {
  const size = Number(text);
  if (/^(?:0|[1-9][0-9]{0,15})$/.test(text) && Number.isSafeInteger(size)) return size;
  throw new LogError("form", "not the size of a tree");
}

/**
 * The checkpoint in a note that a log has signed.
 *
 * @throws LogError `form`, `origin` for another log's, `signature`.
 */
export async function openCheckpoint(note: SignedNote, key: VerifierKey): Promise<Checkpoint> {
  const checkpoint = Checkpoint.parse(note.text);
  if (checkpoint.origin !== key.name) {
    throw new LogError("origin", "the checkpoint is another log's");
  }
  const own = note.signatures.filter((each) => claims(each, key));
  const text = new TextEncoder().encode(note.text) as Bytes;
  const verdicts = await Promise.all(
    own.map(({ signature }) => verifyEd25519(key.publicKey, signature, text)),
  );
  if (own.length > 0 && verdicts.every(Boolean)) return checkpoint;
  throw new LogError("signature", "the checkpoint is not signed by its log");
}

/** {@link openCheckpoint} of a note as text. */
export async function openCheckpointText(text: string, key: VerifierKey): Promise<Checkpoint> {
  return openCheckpoint(parseNote(text), key);
}

const timeOctets = 8;

/** The message of an Ed25519 cosignature (C2SP tlog-cosignature). It does not name the cosigner. */
function messageOf(text: string, seconds: bigint): Bytes {
  return new TextEncoder().encode(`cosignature/v1\ntime ${seconds}\n${text}`) as Bytes;
}

/**
 * When a witness cosigned a checkpoint, by its latest cosignature; `undefined` when it did not.
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
