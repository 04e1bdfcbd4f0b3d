import { createPrivateKey } from "node:crypto";
import { describe, expect, test } from "vitest";
import { LogError } from "../../src/tlog/log-error.ts";
import { Checkpoint, cosignedAt, openCheckpointText } from "../../src/tlog/note/checkpoint.ts";
import {
  formatNote,
  formatSignature,
  parseNote,
  parseSignature,
} from "../../src/tlog/note/note.ts";
import { VerifierKey } from "../../src/tlog/note/verifier-key.ts";
import { createCosigner } from "../testkit/tlog/stand-in-witness.ts";
import { GrownTree, tlogVectors } from "../testkit/tlog/trees.ts";

interface Vectors {
  readonly seed: string;
  readonly publicKey: string;
  readonly logKey: string;
  readonly note: string;
  readonly witnessKey: string;
  readonly cosignedAt: string;
  readonly cosignature: string;
}

const vectors = await tlogVectors<Vectors>("notes.json");
const { note } = vectors;
const publicKey = new Uint8Array(Buffer.from(vectors.publicKey, "hex"));
const pkcs8 = new Uint8Array(Buffer.from(`302e020100300506032b657004220420${vectors.seed}`, "hex"));
const privateKey = await crypto.subtle.importKey("pkcs8", pkcs8, "Ed25519", false, ["sign"]);
const logKey = VerifierKey.parse(vectors.logKey);
const witnessKey = VerifierKey.parse(vectors.witnessKey);
const origin = "log.rampart.test/cluster.local";

async function faultOf(work: () => unknown): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    if (error instanceof LogError) return error.fault;
    throw error;
  }
}

test("the seed of the vectors is a key of node:crypto", () => {
  const key = createPrivateKey({ key: Buffer.from(pkcs8), format: "der", type: "pkcs8" });
  expect(key.asymmetricKeyType).toBe("ed25519");
});

test("a checkpoint with a good and a bad signature of its log is not opened", async () => {
  const { text, signatures } = parseNote(note);
  const [own] = signatures;
  if (!own) throw new Error("no signature");
  const bad = { ...own, signature: own.signature.toReversed() };
  for (const both of [
    [own, bad],
    [bad, own],
  ]) {
    const twice = formatNote({ text, signatures: both });
    expect(await faultOf(() => openCheckpointText(twice, logKey))).toBe("signature");
  }
});

test("signs the checkpoint of the vectors, octet for octet", async () => {
  const { tree } = new GrownTree().grow(7);
  const signer = Checkpoint.createSigner(origin, privateKey, publicKey);
  const text = Checkpoint.format({ origin, ...tree });
  expect(formatNote({ text, signatures: [await signer.sign(text)] })).toBe(note);
  expect(VerifierKey.format(signer.key)).toBe(vectors.logKey);
});

test("opens the checkpoint of the vectors", async () => {
  const { tree } = new GrownTree().grow(7);
  expect(await openCheckpointText(note, logKey)).toEqual({ origin, ...tree });
});

test("the stand-in of a witness cosigns it as the vectors do", async () => {
  const witness = createCosigner("witness.rampart.test/w1", privateKey, publicKey);
  const made = await witness.cosign(parseNote(note).text, new Date(vectors.cosignedAt));
  expect(formatSignature(made)).toBe(vectors.cosignature);
  expect(VerifierKey.format(witness.key)).toBe(vectors.witnessKey);
});

test("reads when a witness has cosigned", async () => {
  const cosigned = parseNote(`${note}${vectors.cosignature}\n`);
  expect(await cosignedAt(cosigned, witnessKey)).toEqual(new Date(vectors.cosignedAt));
  expect(await cosignedAt(parseNote(note), witnessKey)).toBeUndefined();
  // The latest of several counts, in whatever order they stand.
  const witness = createCosigner("witness.rampart.test/w1", privateKey, publicKey);
  const later = new Date(new Date(vectors.cosignedAt).getTime() + 60_000);
  const second = formatSignature(await witness.cosign(parseNote(note).text, later));
  for (const lines of [
    [vectors.cosignature, second],
    [second, vectors.cosignature],
  ])
    expect(await cosignedAt(parseNote(`${note}${lines.join("\n")}\n`), witness.key)).toEqual(later);
});

test("refuses every checkpoint with a changed character", async () => {
  for (let i = 0; i < note.length; i++) {
    const changed = `${note.slice(0, i)}${note[i] === "A" ? "B" : "A"}${note.slice(i + 1)}`;
    expect(await faultOf(() => openCheckpointText(changed, logKey)), changed).toBeDefined();
  }
});

test("refuses every cosignature with a changed character", async () => {
  const line = vectors.cosignature;
  for (let i = "— witness.rampart.test/w1 ia0NkQ".length; i < line.length; i++) {
    const changed = `${line.slice(0, i)}${line[i] === "A" ? "B" : "A"}${line.slice(i + 1)}`;
    const fault = await faultOf(async () =>
      cosignedAt(parseNote(`${note}${changed}\n`), witnessKey),
    );
    expect(fault, changed).toBeDefined();
  }
});

test("knows a checkpoint of another log from a wrong signature", async () => {
  const stranger = { ...logKey, name: "log.rampart.test/other" };
  expect(await faultOf(() => openCheckpointText(note, stranger))).toBe("origin");
  const other = { ...logKey, keyId: Uint8Array.of(1, 2, 3, 4) };
  expect(await faultOf(() => openCheckpointText(note, other))).toBe("signature");
});

test("accepts a note with sixteen signatures of strangers", async () => {
  const many = `${note}${`${vectors.cosignature}\n`.repeat(16)}`;
  expect((await openCheckpointText(many, logKey)).size).toBe(7);
});

test("the text of a note may have an empty line", () => {
  const text = "first\n\nsecond\n";
  const whole = `${text}\n${vectors.cosignature}\n`;
  expect(parseNote(whole).text).toBe(text);
});

test("formats what it has parsed", () => {
  const whole = `${note}${vectors.cosignature}\n`;
  expect(formatNote(parseNote(whole))).toBe(whole);
  expect(formatSignature(parseSignature(vectors.cosignature))).toBe(vectors.cosignature);
});

describe("a note is refused", () => {
  const [text = "", line = ""] = note.split("\n\n");
  test.each([
    ["without signatures", `${text}\n`],
    ["without its last newline", note.slice(0, -1)],
    ["with a tab", note.replace("7", "\t7")],
    ["with a carriage return", note.replaceAll("\n", "\r\n")],
    ["with octets that are no UTF-8", note.replace("7", "\ufffd")],
    ["with a hyphen instead of the dash", `${text}\n\n${line.replace("—", "-")}`],
    ["with a signature that is shorter than a key id", `${text}\n\n— name AAAA\n`],
    ["with loose base64", `${text}\n\n${line.replace("=", "")}`],
    ["with a fourth word", `${text}\n\n${line.trimEnd()} more\n`],
    ["with a plus in the name of a key", `${text}\n\n${line.replace("— log", "— l+g")}`],
    ["with 101 signatures", `${text}\n\n${`${vectors.cosignature}\n`.repeat(101)}`],
    ["of more than a million characters", `${"x".repeat(1e6)}\n\n${vectors.cosignature}\n`],
  ])("%s", async (_, bad) => {
    expect(await faultOf(() => parseNote(bad))).toBe("form");
  });
});

describe("a checkpoint is refused", () => {
  const [own, size, root] = note.split("\n");
  test.each([
    ["without an origin", `\n${size}\n${root}\n`],
    ["with a leading zero", `${own}\n07\n${root}\n`],
    ["with a sign", `${own}\n-7\n${root}\n`],
    ["with a size that no number holds", `${own}\n9007199254740992\n${root}\n`],
    ["with a short root", `${own}\n${size}\nAAAA\n`],
    ["without a root", `${own}\n${size}\n`],
    ["with an empty extension line", `${own}\n${size}\n${root}\n\n`],
    ["with a last line that does not end", `${own}\n${size}\n${root}\nmore`],
  ])("%s", async (_, bad) => {
    expect(await faultOf(() => Checkpoint.parse(bad))).toBe("form");
  });

  test("but extension lines are accepted", () => {
    expect(Checkpoint.parse(`${own}\n${size}\n${root}\nmore\n`).size).toBe(7);
  });
});

describe("a verifier key is refused", () => {
  test.each([
    ["with another key's id", vectors.logKey.replace("e82f1adb", "e82f1adc")],
    ["with another name", vectors.logKey.replace("log.", "lag.")],
    ["of an unknown algorithm", vectors.logKey.replace("+AQ", "+Ag")],
    ["with a short key", "log.rampart.test/a+00000000+AQOh"],
    ["with a long key", VerifierKey.format(VerifierKey.create("a", "note", new Uint8Array(33)))],
    ["without parts", "log.rampart.test"],
  ])("%s", async (_, bad) => {
    expect(await faultOf(() => VerifierKey.parse(bad))).toBe("form");
  });
});
