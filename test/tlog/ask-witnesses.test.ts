import { beforeEach, describe, expect, test } from "vitest";
import { createAskWitnesses, type WitnessAnswer } from "../../src/tlog/ask-witnesses.ts";
import type { Tree } from "../../src/tlog/merkle.ts";
import { createLogSigner, formatCheckpoint } from "../../src/tlog/note/checkpoint.ts";
import { formatNote, formatSignature } from "../../src/tlog/note/note.ts";
import { Policy } from "../../src/tlog/note/policy.ts";
import { VerifierKey } from "../../src/tlog/note/verifier-key.ts";
import { createCosigner, standInWitness } from "../testkit/tlog/stand-in-witness.ts";
import { GrownTree } from "../testkit/tlog/trees.ts";

const origin = "log.example.com/2026/0";
const now = new Date("2026-11-22T00:00:00Z");
const logKeys = await VerifierKey.generate();
const log = createLogSigner(origin, logKeys.privateKey, await VerifierKey.raw(logKeys.publicKey));
const witnessKeys = await VerifierKey.generate();
const witnessPublic = await VerifierKey.raw(witnessKeys.publicKey);
const cosigner = createCosigner("w1.example.com", witnessKeys.privateKey, witnessPublic);

async function signed(tree: Tree): Promise<string> {
  const text = formatCheckpoint({ origin, ...tree });
  return formatNote({ text, signatures: [await log.sign(text)] });
}

describe("a publisher", () => {
  const policy = Policy.parse(
    `witness w1 ${VerifierKey.format(cosigner.key)} https://w1.example.com/\nquorum w1`,
  );
  let grown: GrownTree;
  beforeEach(() => {
    grown = new GrownTree();
  });
  const asking = (post: (url: string, body: string) => Promise<WitnessAnswer>) => {
    const refused: string[] = [];
    const ask = createAskWitnesses(policy, {
      post,
      read: grown.read,
      refused: (name, why) => refused.push(`${name}: ${why}`),
    });
    return { refused, ask };
  };

  test("gets a cosignature, and asks once more from the size that a witness knows", async () => {
    const sizes: string[] = [];
    const send = standInWitness(log.key, cosigner, now, grown.grow(3).tree);
    const { ask: askAll, refused } = asking((url, body) => {
      expect(url).toBe("https://w1.example.com/add-checkpoint");
      sizes.push(body.slice(0, body.indexOf("\n")));
      return send(body);
    });
    expect(await askAll(await signed(grown.grow(7).tree))).toHaveLength(1);
    expect(await askAll(await signed(grown.grow(9).tree))).toHaveLength(1);
    expect(sizes).toEqual(["old 0", "old 3", "old 7"]);
    expect(refused).toEqual([]);
  });

  test.each<[string, () => Promise<WitnessAnswer>]>([
    ["does not answer", () => Promise.reject(new Error("no answer"))],
    ["fails", async () => ({ status: 500, contentType: "", body: "" })],
    ["knows more", async () => ({ status: 409, contentType: "text/x.tlog.size", body: "99\n" })],
    ["talks nonsense", async () => ({ status: 200, contentType: "", body: "yes\n" })],
    [
      "signs with another key",
      async () => ({ status: 200, contentType: "", body: `— w2 ${btoa("x".repeat(76))}\n` }),
    ],
    [
      "signs wrongly",
      async () => {
        const other = formatSignature(await cosigner.cosign("another text\n", now));
        return { status: 200, contentType: "", body: `${other}\n` };
      },
    ],
  ])("goes on without a witness that %s", async (_, post) => {
    const { ask: askAll, refused } = asking(post);
    expect(await askAll(await signed(grown.grow(7).tree))).toEqual([]);
    expect(refused).toEqual([expect.stringMatching(/^w1: /)]);
  });
});
