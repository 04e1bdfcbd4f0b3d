import { beforeEach, describe, expect, test } from "vitest";
import {
  askConfigured,
  createAskWitnesses,
  type WitnessAnswer,
} from "../../src/tlog/ask-witnesses.ts";
import type { Tree } from "../../src/tlog/merkle.ts";
import { Checkpoint } from "../../src/tlog/note/checkpoint.ts";
import { formatNote, formatSignature } from "../../src/tlog/note/note.ts";
import { LogPolicy } from "../../src/tlog/note/policy.ts";
import { VerifierKey } from "../../src/tlog/note/verifier-key.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { createCosigner, standInWitness } from "../testkit/tlog/stand-in-witness.ts";
import { GrownTree } from "../testkit/tlog/trees.ts";

const origin = "log.example.com/2026/0";
const now = new Date("2026-11-22T00:00:00Z");
const logKeys = await VerifierKey.generate();
const log = Checkpoint.createSigner(
  origin,
  logKeys.privateKey,
  await VerifierKey.raw(logKeys.publicKey),
);
const witnessKeys = await VerifierKey.generate();
const witnessPublic = await VerifierKey.raw(witnessKeys.publicKey);
const cosigner = createCosigner("w1.example.com", witnessKeys.privateKey, witnessPublic);

const other = formatSignature(await cosigner.cosign("another text\n", now));

async function signed(tree: Tree): Promise<string> {
  const text = Checkpoint.format({ origin, ...tree });
  return formatNote({ text, signatures: [await log.sign(text)] });
}

describe("a publisher", () => {
  const policy = LogPolicy.parse(
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

  test("takes the witness's own cosignature of several, and of two witnesses each its own", async () => {
    const others = await VerifierKey.generate();
    const second = createCosigner(
      "w2.example.com",
      others.privateKey,
      await VerifierKey.raw(others.publicKey),
    );
    const lines = [cosigner, second].map(
      ({ key }, i) => `witness w${i + 1} ${VerifierKey.format(key)} https://w${i + 1}.test/`,
    );
    const both = LogPolicy.parse([...lines, "group both all w1 w2", "quorum both"].join("\n"));
    const asked: string[] = [];
    const small = grown.grow(3).tree;
    const answers = [cosigner, second].map((each, i) =>
      standInWitness(log.key, each, now, i === 0 ? small : new GrownTree().grow(0).tree),
    );
    const ask = createAskWitnesses(both, {
      post: async (url, body) => {
        const i = url.includes("w1") ? 0 : 1;
        asked.push(`w${i + 1} ${body.slice(0, body.indexOf("\n"))}`);
        const { body: own, ...answer } = (await answers[i]?.(body)) ?? {
          body: "",
          status: 500,
          contentType: "",
        };
        const strange = formatSignature(await (i === 0 ? second : cosigner).cosign("text\n", now));
        return { ...answer, body: answer.status === 200 ? `${strange}\n${own}` : own };
      },
      read: grown.read,
      refused: (name, why) => asked.push(`${name} refused: ${why}`),
    });
    const first = await ask(await signed(grown.grow(7).tree));
    expect(first.map(({ name }) => name).toSorted()).toEqual(["w1.example.com", "w2.example.com"]);
    asked.length = 0;
    await ask(await signed(grown.grow(9).tree));
    expect(asked.toSorted()).toEqual(["w1 old 7", "w2 old 7"]);
  });

  test.each<[string, number, string, string, string?]>([
    ["fails", 500, "", "it answered 500"],
    ["knows more", 409, "99\n", "it has cosigned 99 entries already", "text/x.tlog.size"],
    ["conflicts without a size", 409, "99\n", "it answered 409"],
    ["talks nonsense", 200, "yes\n", "not the signature line of a note"],
    ["signs with another key", 200, `— w2 ${btoa("x".repeat(76))}\n`, "it signed with another key"],
    ["signs wrongly", 200, `${other}\n`, "the cosignature is not the witness's"],
  ])("goes on without a witness that %s", async (_, status, body, why, contentType = "") => {
    const { ask: askAll, refused } = asking(async () => ({ status, contentType, body }));
    expect(await askAll(await signed(grown.grow(7).tree))).toEqual([]);
    expect(refused).toEqual([`w1: ${why}`]);
  });
});

describe("a configuration of witnesses", () => {
  const line = (name: string, url: string) =>
    `witness ${name} ${VerifierKey.format(cosigner.key)} ${url}\n`;

  test("gives a witness five seconds and 64 KiB, follows it nowhere, and logs its name", async () => {
    const inits: (RequestInit | undefined)[] = [];
    const answers = [
      new Response(null, { status: 307, headers: { location: "https://w2.test" } }),
      new Response("x".repeat(64 * 1024 + 1)),
    ];
    const log = createEventRecorder();
    const ask = askConfigured(`${line("w1", "https://w1.test")}quorum w1`, {
      fetch: async (_, init) => {
        inits.push(init);
        return answers.shift() ?? Promise.reject(new Error("no answer"));
      },
      read: async () => undefined,
      log,
    });
    for (let i = 0; i < 3; i++)
      expect(await ask?.(await signed(new GrownTree().grow(0).tree))).toEqual([]);
    expect(inits[0]).toMatchObject({ redirect: "manual", signal: expect.any(AbortSignal) });
    const refused = { event: "witness-refused", level: "warning", witness: "w1" };
    expect(log.operations).toMatchObject([
      { ...refused, detail: "it answered 307" },
      { ...refused, detail: expect.stringContaining("too much") },
      { ...refused, detail: "no answer" },
    ]);
  });

  test.each([0, 1])("needs a URL for each (%d has none)", (without) => {
    const lines = [0, 1].map((i) => line(`w${i}`, i === without ? "" : "https://w.test"));
    const means = { fetch, read: async () => undefined, log: createEventRecorder() };
    expect(() => askConfigured(`${lines.join("")}quorum w0`, means)).toThrow("without a URL");
  });
});
