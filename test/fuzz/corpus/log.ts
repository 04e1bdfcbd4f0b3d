import { createHash, sign, verify } from "node:crypto";
import type { Tree } from "../../../src/tlog/merkle.ts";
import { LogProof } from "../../../src/tlog/proof.ts";
import { entryAt, GrownTree } from "../../testkit/tlog/trees.ts";
import { type FixedKey, fixedKey } from "./fixed-keys.ts";

/** A key that signs notes, and how verifiers name it (C2SP signed-note). */
interface NoteKey {
  readonly name: string;
  readonly key: FixedKey;
  readonly id: Buffer;
  readonly verifierKey: string;
}

function noteKey(name: string, type: 0x01 | 0x04): NoteKey {
  const key = fixedKey("Ed25519", name);
  const octets = Buffer.concat([Buffer.from([type]), key.spki.subarray(-32)]);
  const digest = createHash("sha256").update(`${name}\n`).update(octets).digest();
  const id = digest.subarray(0, 4);
  const verifierKey = `${name}+${id.toString("hex")}+${octets.toString("base64")}`;
  return { name, key, id, verifierKey };
}

/** The log of the corpus. */
export const logKey: NoteKey = noteKey("log.test/mesh", 0x01);

/** Its witnesses. */
export const witnessKeys: readonly NoteKey[] = ["w1.test", "w2.test", "w3.test"].map((name) =>
  noteKey(name, 0x04),
);

export const policyText = [
  `log ${logKey.verifierKey} https://log.test`,
  ...witnessKeys.map(({ verifierKey }, i) => `witness w${i + 1} ${verifierKey}`),
  "group two 2 w1 w2 w3",
  "group all-of-them all two w3",
  "quorum two",
  "",
].join("\n");

const line = ({ name, id }: NoteKey, signature: Uint8Array): string =>
  `\u2014 ${name} ${Buffer.concat([id, signature]).toString("base64")}\n`;

const cosignedText = (text: string, seconds: bigint): Buffer =>
  Buffer.from(`cosignature/v1\ntime ${seconds}\n${text}`);

/** Any text, signed by the log and cosigned by so many witnesses. */
export function signedText(text: string, witnesses = 0): string {
  const own = line(logKey, sign(null, Buffer.from(text), logKey.key.privateKey));
  const seconds = 1_795_262_400n;
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(seconds);
  const others = witnessKeys.slice(0, witnesses).map((witness) => {
    const signature = sign(null, cosignedText(text, seconds), witness.key.privateKey);
    return line(witness, Buffer.concat([time, signature]));
  });
  return `${text}\n${own}${others.join("")}`;
}

/** Whether a line of a note is a signature of the log, or of a witness, over its text. */
export function isSignedBy({ name, id, key }: NoteKey, text: string, lines: string): boolean {
  return lines.split("\n").some((each) => {
    const [, named, base64 = ""] = each.split(" ");
    const octets = Buffer.from(base64, "base64");
    if (named !== name || !octets.subarray(0, 4).equals(id)) return false;
    const signature = octets.subarray(4);
    if (key === logKey.key) return verify(null, Buffer.from(text), key.publicKey, signature);
    if (signature.length < 9) return false;
    const message = cosignedText(text, signature.readBigUInt64BE());
    return verify(null, message, key.publicKey, signature.subarray(8));
  });
}

export const checkpointText = ({ size, root }: Tree): string =>
  `${logKey.name}\n${size}\n${Buffer.from(root).toString("base64")}\n`;

/** How large the log is in the end. */
const wholeSize = 7;
const grown = new GrownTree().grow(wholeSize);

/** The log's tree of each size. */
export const trees: readonly Tree[] = Array.from(
  { length: wholeSize + 1 },
  (_, size) => new GrownTree().grow(size).tree,
);

const base64 = (hashes: readonly Uint8Array[]): string[] =>
  hashes.map((hash) => Buffer.from(hash).toString("base64"));

/** A proof of each entry, with the entry. */
export const entryProofs: readonly string[] = await Promise.all(
  Array.from({ length: wholeSize }, async (_, index) => {
    const proof = await LogProof.proveInclusion(wholeSize, index, grown.read);
    const extra = Buffer.from(entryAt(index)).toString("base64");
    const head = ["c2sp.org/tlog-proof@v1", `extra ${extra}`, `index ${index}`];
    return [...head, ...base64(proof), "", signedText(checkpointText(grown.tree))].join("\n");
  }),
);

/** Tiles and bundles by their paths. */
export const tiles: readonly (readonly [string, Uint8Array])[] = [...grown.tiles];
