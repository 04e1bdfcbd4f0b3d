import { beforeEach, describe, expect, test } from "vitest";
import type { Tree } from "../../src/tlog/merkle.ts";
import {
  cosignedAt,
  createCosigner,
  createLogSigner,
  formatCheckpoint,
} from "../../src/tlog/note/checkpoint.ts";
import { formatNote, formatSignature, parseNote } from "../../src/tlog/note/note.ts";
import { parsePolicy } from "../../src/tlog/note/policy.ts";
import {
  formatVerifierKey,
  generateEd25519,
  rawPublicKey,
} from "../../src/tlog/note/verifier-key.ts";
import { proveConsistency } from "../../src/tlog/proof.ts";
import { createAskWitnesses } from "../../src/tlog/witness/ask-witnesses.ts";
import {
  cosignOrRefuse,
  formatAddCheckpoint,
  type Witness,
  type WitnessAnswer,
} from "../../src/tlog/witness/witness.ts";
import { GrownTree } from "../testkit/tlog/trees.ts";

const origin = "log.example.com/2026/0";
const now = new Date("2026-11-22T00:00:00Z");
const logKeys = await generateEd25519();
const log = createLogSigner(origin, logKeys.privateKey, await rawPublicKey(logKeys.publicKey));
const witnessKeys = await generateEd25519();
const witnessPublic = await rawPublicKey(witnessKeys.publicKey);
const cosigner = createCosigner("w1.example.com", witnessKeys.privateKey, witnessPublic);

async function signed(tree: Tree, signer = log, name = origin): Promise<string> {
  const text = formatCheckpoint({ origin: name, ...tree });
  return formatNote({ text, signatures: [await signer.sign(text)] });
}

let latest: Map<string, Tree>;
let witness: Witness;
let grown: GrownTree;

beforeEach(() => {
  latest = new Map();
  grown = new GrownTree();
  witness = {
    logs: [log.key],
    cosigner,
    memory: {
      latest: (name) => latest.get(name),
      advance: (name, from, to) => {
        if ((latest.get(name)?.size ?? 0) !== from) return false;
        latest.set(name, to);
        return true;
      },
    },
  };
});

const send = (text: string): Promise<WitnessAnswer> => cosignOrRefuse(text, witness, now);

/** Asks for the tree of a size, as an honest log does. */
async function ask(older: number, size: number): Promise<WitnessAnswer> {
  const { tree, read } = grown.grow(size);
  const proof = await proveConsistency(older, size, read);
  return send(formatAddCheckpoint({ older, proof, checkpoint: await signed(tree) }));
}

describe("a witness", () => {
  test("cosigns what extends the tree that it knows, and the same again", async () => {
    for (const [older, size] of [
      [0, 3],
      [3, 7],
      [7, 7],
      [7, 300],
    ] as const) {
      const { status, body } = await ask(older, size);
      expect(status).toBe(200);
      const note = parseNote(`${await signed(grown.tree)}${body}`);
      expect(await cosignedAt(note, cosigner.key)).toEqual(now);
    }
  });

  test("says which size it knows when a log asks from another one", async () => {
    await ask(0, 7);
    const conflict = { status: 409, contentType: "text/x.tlog.size", body: "7\n" };
    expect(await ask(3, 9)).toEqual(conflict);
    expect(await ask(0, 9)).toEqual(conflict);
  });

  test("knows no log of another origin", async () => {
    const other = createLogSigner("other", logKeys.privateKey, log.key.publicKey);
    const checkpoint = await signed(grown.grow(3).tree, other, "other");
    expect(await send(formatAddCheckpoint({ older: 0, proof: [], checkpoint }))).toMatchObject({
      status: 404,
    });
  });

  test("refuses what the log has not signed", async () => {
    const keys = await generateEd25519();
    const thief = createLogSigner(origin, keys.privateKey, await rawPublicKey(keys.publicKey));
    const { tree } = grown.grow(3);
    const forged = await signed(tree, thief);
    const wrong = (await signed(tree)).replace("\n3\n", "\n4\n");
    for (const checkpoint of [forged, wrong]) {
      const { status } = await send(formatAddCheckpoint({ older: 0, proof: [], checkpoint }));
      expect(status).toBe(403);
    }
  });

  test("refuses a fork, and keeps what it knows", async () => {
    await ask(0, 7);
    const fork = { size: 9, root: new GrownTree().grow(8).tree.root };
    const proof = await proveConsistency(7, 9, grown.grow(9).read);
    const checkpoint = await signed(fork);
    expect(await send(formatAddCheckpoint({ older: 7, proof, checkpoint }))).toMatchObject({
      status: 422,
    });
    const same = await signed({ size: 7, root: fork.root });
    expect(
      await send(formatAddCheckpoint({ older: 7, proof: [], checkpoint: same })),
    ).toMatchObject({ status: 422 });
    expect((await ask(7, 9)).status).toBe(200);
  });

  test("refuses a size that goes back, an empty tree with a root, and other texts", async () => {
    const checkpoint = await signed(grown.grow(3).tree);
    expect((await send(formatAddCheckpoint({ older: 4, proof: [], checkpoint }))).status).toBe(400);
    const empty = await signed({ size: 0, root: grown.tree.root });
    const asked = formatAddCheckpoint({ older: 0, proof: [], checkpoint: empty });
    expect((await send(asked)).status).toBe(422);
    for (const text of ["", "old 0", `old 0\n\n${checkpoint.slice(0, -1)}`]) {
      expect((await send(text)).status).toBe(400);
    }
  });

  test("does not cosign when another request was quicker", async () => {
    await ask(0, 3);
    const { memory } = witness;
    witness = { ...witness, memory: { ...memory, advance: () => false } };
    expect(await ask(3, 7)).toMatchObject({ status: 409, body: "3\n" });
  });
});

describe("a publisher", () => {
  const policy = parsePolicy(
    `witness w1 ${formatVerifierKey(cosigner.key)} https://w1.example.com/\nquorum w1`,
  );
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
    const { ask: askAll, refused } = asking((url, body) => {
      expect(url).toBe("https://w1.example.com/add-checkpoint");
      sizes.push(body.slice(0, body.indexOf("\n")));
      return send(body);
    });
    await ask(0, 3);
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
