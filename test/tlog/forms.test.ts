import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Hash } from "../../src/tlog/merkle.ts";
import { Checkpoint } from "../../src/tlog/note/checkpoint.ts";
import { LogPolicy } from "../../src/tlog/note/policy.ts";
import { VerifierKey } from "../../src/tlog/note/verifier-key.ts";
import { LogProof } from "../../src/tlog/proof.ts";
import { Tile } from "../../src/tlog/tile.ts";
import { entryAt, GrownTree, tlogVectors } from "../testkit/tlog/trees.ts";

const vectors = await tlogVectors<Record<string, string>>("notes.json");
const { note = "", logKey = "", witnessKey = "", cosignature = "" } = vectors;

describe("the path of a tile", () => {
  test.each<[Tile, string]>([
    [{ level: 0, index: 0, width: 256 }, "tile/0/000"],
    [{ level: 1, index: 1_234_067, width: 256 }, "tile/1/x001/x234/067"],
    [{ level: 63, index: 999, width: 1 }, "tile/63/999.p/1"],
    [{ level: "entries", index: 1000, width: 255 }, "tile/entries/x001/000.p/255"],
  ])("%o is %s", (one, path) => {
    expect(Tile.path(one)).toBe(path);
    expect(Tile.parsePath(path)).toEqual(one);
  });

  test.each([
    "tile/8/0/000",
    "tile/00/000",
    "tile/64/000",
    "tile/0/0",
    "tile/0/x000/001",
    "tile/0/x001",
    "tile/0/1000",
    "tile/0/000.p/0",
    "tile/0/000.p/256",
    "tile/0/000.p/01",
    "tile/0/000.p/",
    "tile/entries",
    "tile/entries/000/",
    "/tile/0/000",
    "tile/0/../000",
    "tile/0/000\n",
    "",
  ])("is not %j", (path) => {
    expect(Tile.parsePath(path)).toBeUndefined();
  });

  test("names the tiles within a tree alone", () => {
    expect(Tile.in(70_000, 0, 273)?.width).toBe(112);
    expect(Tile.in(70_000, 1, 1)?.width).toBe(17);
    expect(Tile.in(70_000, "entries", 273)?.width).toBe(112);
    expect(Tile.in(70_000, 0, 274)).toBeUndefined();
    expect(Tile.in(256, 0, 1)).toBeUndefined();
    expect(Tile.in(255, 1, 0)).toBeUndefined();
  });
});

describe("a bundle", () => {
  test("reads back its entries", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 400 }), { maxLength: 20 }), (entries) => {
        const octets = Tile.formatBundle(entries);
        expect(Tile.parseBundle(octets, entries.length).map((each) => [...each])).toEqual(
          entries.map((each) => [...each]),
        );
      }),
    );
  });

  test("holds the longest entry, and none that is longer", () => {
    expect(Tile.parseBundle(Tile.formatBundle([new Uint8Array(65_535)]), 1)[0]).toHaveLength(
      65_535,
    );
    expect(() => Tile.formatBundle([new Uint8Array(65_536)])).toThrow();
  });

  test.each([
    ["one entry too many", Tile.formatBundle([entryAt(0), entryAt(1)]), 1],
    ["one entry too few", Tile.formatBundle([entryAt(0)]), 2],
    ["an octet too many", Uint8Array.of(0, 1, 9, 0), 1],
    ["an entry that is cut off", Uint8Array.of(0, 2, 9), 1],
    ["half a length", Uint8Array.of(0), 0],
  ])("is refused with %s", (_, octets, width) => {
    expect(() => Tile.parseBundle(octets, width)).toThrow();
  });
});

describe("a proof in a file", () => {
  const proved = async () => {
    const grown = new GrownTree().grow(7);
    const hashes = await LogProof.proveInclusion(7, 3, grown.read);
    return { grown, hashes, text: LogProof.format({ index: 3, hashes, checkpoint: note }) };
  };

  test("is 507 octets with a cosignature, as other implementations write it", async () => {
    const { hashes } = await proved();
    const checkpoint = `${note}${cosignature}\n`;
    const text = LogProof.format({ index: 3, hashes, checkpoint });
    expect(new TextEncoder().encode(text)).toHaveLength(507);
  });

  test("reads back, and verifies", async () => {
    const { grown, text } = await proved();
    const { index, hashes, checkpoint } = LogProof.parse(text);
    expect(checkpoint).toBe(note);
    LogProof.verifyInclusion(grown.tree, index, Hash.ofLeaf(entryAt(3)), hashes);
  });

  test("may carry an extra line", async () => {
    const { text } = await proved();
    expect(LogProof.parse(text.replace("index", "extra AAAA\nindex")).index).toBe(3);
  });

  test.each<[string, (text: string) => string]>([
    ["another version", (text) => text.replace("@v1", "@v2")],
    ["an extra line that is no base64", (text) => text.replace("index", "extra !\nindex")],
    ["two extra lines", (text) => text.replace("index", "extra AAAA\nextra AAAA\nindex")],
    ["no index", (text) => text.replace("index 3\n", "")],
    ["an index with a leading zero", (text) => text.replace("index 3", "index 03")],
    ["a short hash", (text) => text.replace("index 3\n", "index 3\nAAAA\n")],
    [
      "64 hashes",
      (text) => text.replace("index 3\n", `index 3\n${`${"A".repeat(43)}=\n`.repeat(64)}`),
    ],
    ["no end", (text) => text.replace("\n\n", "\n")],
    [
      "too long an extra line",
      (text) => text.replace("index", `extra ${"A".repeat(262_144)}\nindex`),
    ],
  ])("is refused with %s", async (_, change) => {
    const { text } = await proved();
    expect(() => LogProof.parse(change(text))).toThrow();
  });
});

describe("a policy", () => {
  const policy = (rest: string) =>
    LogPolicy.parse(`# mesh\nlog ${logKey} https://log.test/0\n${rest}`);
  const witnessed = `witness w1 ${witnessKey} https://w1.test/\n`;

  test("accepts a checkpoint of its log", async () => {
    const { checkpoint, log } = await LogPolicy.accept(note, policy("quorum none\n"));
    expect(checkpoint.size).toBe(7);
    expect(log.url).toBe("https://log.test/0");
  });

  test("accepts the checkpoint of each of its logs by the key of that log", async () => {
    const { privateKey, publicKey } = await VerifierKey.generate();
    const otherKey = Checkpoint.createSigner(
      "log.other.test/1",
      privateKey,
      await VerifierKey.raw(publicKey),
    );
    const other = `log ${VerifierKey.format(otherKey.key)} https://other.test\n`;
    const own = `log ${logKey} https://log.test/0\n`;
    for (const lines of [other + own, own + other]) {
      const { log } = await LogPolicy.accept(note, LogPolicy.parse(`${lines}quorum none\n`));
      expect(log.url).toBe("https://log.test/0");
    }
  });

  test("demands the cosignatures of its quorum", async () => {
    const demanding = policy(`${witnessed}quorum w1`);
    await expect(LogPolicy.accept(note, demanding)).rejects.toMatchObject({ fault: "quorum" });
    const cosigned = `${note}${cosignature}\n`;
    const { cosigned: by } = await LogPolicy.accept(cosigned, demanding);
    expect([...by.keys()]).toEqual(["w1"]);
  });

  test("counts every witness that has cosigned", async () => {
    const second = `witness w2 ${witnessKey}\n`;
    const demanding = policy(`${witnessed}${second}group both 2 w1 w2\nquorum both`);
    const { cosigned } = await LogPolicy.accept(`${note}${cosignature}\n`, demanding);
    expect([...cosigned.keys()]).toEqual(["w1", "w2"]);
  });

  test("counts the members of groups", () => {
    const { isQuorum } = policy(
      `${witnessed}${["w2", "w3", "w4"].map((name) => `witness ${name} ${witnessKey}\n`).join("")}` +
        "group two 2 w1 w2 w3\ngroup one any w1 w4\ngroup both all two one\nquorum both\n",
    );
    expect(isQuorum(new Set(["w1", "w2"]))).toBe(true);
    expect(isQuorum(new Set(["w1"]))).toBe(false);
    expect(isQuorum(new Set(["w3"]))).toBe(false);
    expect(isQuorum(new Set(["w2", "w3"]))).toBe(false);
    expect(isQuorum(new Set(["w2", "w3", "w4"]))).toBe(true);
  });

  test("refuses the checkpoint of a log that it does not name", async () => {
    const other = LogPolicy.parse("quorum none\n");
    await expect(LogPolicy.accept(note, other)).rejects.toMatchObject({ fault: "origin" });
  });

  test.each([
    ["no quorum", ""],
    ["two quorums", "quorum none\nquorum none"],
    ["an unknown quorum", "quorum w1"],
    ["an unknown keyword", "logs x\nquorum none"],
    ["a witness twice", `${witnessed}${witnessed}quorum w1`],
    ["a witness with a log's key", `witness w1 ${logKey}\nquorum w1`],
    ["a log with a witness's key", `log ${witnessKey}\nquorum none`],
    ["a group of an unknown witness", "group g any w9\nquorum g"],
    ["a group without members", "group g any\nquorum g"],
    ["a group of more than it has", `${witnessed}group g 2 w1\nquorum g`],
    ["a group with one member twice", `${witnessed}group g 2 w1 w1\nquorum g`],
    ["a place that is no URL", `witness w1 ${witnessKey} ftp://w1\nquorum w1`],
  ])("is refused with %s", (_, rest) => {
    expect(() => policy(rest)).toThrow();
  });
});
