import { concatBytes } from "../../../src/foundation/octets.ts";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import type { WitnessAnswer } from "../../../src/tlog/ask-witnesses.ts";
import type { Hash, Tree } from "../../../src/tlog/merkle.ts";
import { openCheckpointText } from "../../../src/tlog/note/checkpoint.ts";
import { formatSignature, type NoteSignature, parseNote } from "../../../src/tlog/note/note.ts";
import { signEd25519, VerifierKey } from "../../../src/tlog/note/verifier-key.ts";
import { verifyConsistency } from "./consistency.ts";

/** Cosigns checkpoints (C2SP tlog-cosignature). */
export interface Cosigner {
  readonly key: VerifierKey;
  readonly cosign: (text: string, now: Date) => Promise<NoteSignature>;
}

export function createCosigner(name: string, privateKey: CryptoKey, publicKey: Bytes): Cosigner {
  const key = VerifierKey.create(name, "cosignature", publicKey);
  return {
    key,
    cosign: async (text, now) => {
      const seconds = BigInt(Math.floor(now.getTime() / 1000));
      const time = new Uint8Array(8);
      new DataView(time.buffer).setBigUint64(0, seconds);
      const message = new TextEncoder().encode(`cosignature/v1\ntime ${seconds}\n${text}`);
      const signature = await signEd25519(privateKey, message as Bytes);
      return { name, keyId: key.keyId, signature: concatBytes(time, signature) };
    },
  };
}

/**
 * Stands in for somebody's witness of one log (C2SP tlog-witness). The suite `log` asks one that others wrote.
 *
 * @param known The tree that it has cosigned last.
 */
export function standInWitness(log: VerifierKey, { cosign }: Cosigner, now: Date, known: Tree) {
  let latest = known;
  return async (body: string): Promise<WitnessAnswer> => {
    const end = body.indexOf("\n\n");
    const [older, ...lines] = body.slice(0, end).split("\n");
    const text = body.slice(end + 2);
    const checkpoint = await openCheckpointText(text, log);
    if (older !== `old ${latest.size}`) {
      return { status: 409, contentType: "text/x.tlog.size", body: `${latest.size}\n` };
    }
    const proof = lines.map((line) => Base64.parse(line) as Hash);
    verifyConsistency(latest, checkpoint, proof);
    latest = checkpoint;
    const cosignature = formatSignature(await cosign(parseNote(text).text, now));
    return { status: 200, contentType: "text/plain", body: `${cosignature}\n` };
  };
}
