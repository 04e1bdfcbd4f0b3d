import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Frontier } from "../../src/tlog/frontier.ts";
import { emptyRoot, Hash } from "../../src/tlog/merkle.ts";
import { LogProof, proveConsistency } from "../../src/tlog/proof.ts";
import { verifyConsistency } from "../testkit/tlog/consistency.ts";
import { entryAt, GrownTree, hex, rootByDefinition, tlogVectors } from "../testkit/tlog/trees.ts";

interface Vectors {
  readonly empty: string;
  readonly leaves: Readonly<Record<string, string>>;
  readonly roots: readonly (readonly [number, string])[];
  readonly inclusion: { size: number; index: number; hashes: readonly string[] };
  readonly consistency: { older: number; newer: number; hashes: readonly string[] };
}

const vectors = await tlogVectors<Vectors>("trees.json");

test("hashes nothing, and entries, as RFC 9162 does", () => {
  expect(hex(emptyRoot)).toBe(vectors.empty);
  for (const [entry, leaf] of Object.entries(vectors.leaves)) {
    expect(hex(Hash.ofLeaf(new TextEncoder().encode(entry)))).toBe(leaf);
  }
});

test("computes the roots of the vectors while it grows", () => {
  const tree = new GrownTree();
  for (const [size, root] of vectors.roots) {
    expect(hex(tree.grow(size).frontier.root())).toBe(root);
  }
});

const large = new GrownTree().grow(70_000);

test("has the tiles that C2SP tlog-tiles lists for 70,000 and for 256 entries", () => {
  const { tiles } = large;
  const level = (n: number) => [...tiles.keys()].filter((path) => path.startsWith(`tile/${n}/`));
  expect(level(0)).toHaveLength(274);
  expect(level(0)).toContain("tile/0/273.p/112");
  expect(level(1)).toEqual(["tile/1/000", "tile/1/001.p/17"]);
  expect(level(2)).toEqual(["tile/2/000.p/1"]);
  expect([...new GrownTree().grow(256).tiles.keys()]).toEqual(["tile/0/000", "tile/1/000.p/1"]);
});

test("proves as the vectors do", async () => {
  const { read } = new GrownTree().grow(7);
  const { inclusion, consistency } = vectors;
  expect((await LogProof.proveInclusion(7, inclusion.index, read)).map(hex)).toEqual(
    inclusion.hashes,
  );
  expect((await proveConsistency(3, 7, read)).map(hex)).toEqual(consistency.hashes);
});

test("makes proofs of the lengths that a tree of 70,000 entries needs", async () => {
  const { read } = large;
  expect(await LogProof.proveInclusion(70_000, 0, read)).toHaveLength(17);
  expect(await LogProof.proveInclusion(70_000, 69_999, read)).toHaveLength(9);
});

test("computes the root of any small tree as the definition does", () => {
  const node = (left: Hash, right: Hash): Hash =>
    new Uint8Array(createHash("sha256").update(Buffer.of(1)).update(left).update(right).digest());
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 700 }), (size) => {
      const leaves = Array.from({ length: size }, (_, i) => Hash.ofLeaf(entryAt(i)));
      expect(new GrownTree().grow(size).frontier.root()).toEqual(rootByDefinition(leaves, node));
    }),
    { numRuns: 30 },
  );
});

test("continues from its octets as if it had not been interrupted", () => {
  fc.assert(
    fc.property(fc.nat(600), fc.nat(300), (size, more) => {
      const { frontier } = new GrownTree().grow(size);
      const restored = Frontier.fromBytes(size, frontier.toBytes());
      for (let i = size; i < size + more; i++) {
        expect(restored.append(Hash.ofLeaf(entryAt(i)))).toEqual(
          frontier.append(Hash.ofLeaf(entryAt(i))),
        );
      }
      expect(restored.root()).toEqual(frontier.root());
    }),
    { numRuns: 20 },
  );
});

test.each([1, -1])("refuses the octets of a frontier of another size (%i)", (difference) => {
  const { frontier } = new GrownTree().grow(300);
  expect(() => Frontier.fromBytes(300 + difference, frontier.toBytes())).toThrow();
});

describe("of any two sizes", () => {
  const sizes = fc
    .tuple(fc.integer({ min: 1, max: 1200 }), fc.integer({ min: 1, max: 1200 }))
    .map(([a, b]): [number, number] => [Math.min(a, b), Math.max(a, b)]);
  const grown = new GrownTree();
  const trees = Array.from({ length: 1201 }, (_, size) => grown.grow(size).tree);
  const treeOf = (size: number) => trees[size] ?? { size, root: emptyRoot };

  test("every entry has a proof that verifies, and for no other place, entry or tree", async () => {
    await fc.assert(
      fc.asyncProperty(sizes, fc.nat(), async ([index, size], other) => {
        const at = Math.min(index, size - 1);
        const leaf = Hash.ofLeaf(entryAt(at));
        const proof = await LogProof.proveInclusion(size, at, grown.read);
        LogProof.verifyInclusion(treeOf(size), at, leaf, proof);
        const elsewhere = other % 1200;
        if (elsewhere !== at) {
          expect(() => LogProof.verifyInclusion(treeOf(size), elsewhere, leaf, proof)).toThrow();
          const stranger = Hash.ofLeaf(entryAt(elsewhere));
          expect(() => LogProof.verifyInclusion(treeOf(size), at, stranger, proof)).toThrow();
        }
        const forged = { size, root: treeOf(size - 1).root };
        expect(() => LogProof.verifyInclusion(forged, at, leaf, proof)).toThrow();
        for (const long of [
          [...proof, leaf],
          [leaf, ...proof],
        ])
          expect(() => LogProof.verifyInclusion(treeOf(size), at, leaf, long)).toThrow();
        if (proof.length > 0) {
          expect(() => LogProof.verifyInclusion(treeOf(size), at, leaf, proof.slice(1))).toThrow();
        }
      }),
      { numRuns: 150 },
    );
  });

  test("the older tree is proved a beginning of the newer one, and no other tree is", async () => {
    await fc.assert(
      fc.asyncProperty(sizes, async ([older, newer]) => {
        const proof = await proveConsistency(older, newer, grown.read);
        verifyConsistency(treeOf(older), treeOf(newer), proof);
        const [other, forged] = [older - 1, newer - 1].map((size) => treeOf(size).root);
        if (!other || !forged) throw new Error("no tree");
        const fork = { size: older, root: other };
        expect(() => verifyConsistency(fork, treeOf(newer), proof)).toThrow();
        const rewritten = { size: newer, root: forged };
        if (older < newer) {
          expect(() => verifyConsistency(treeOf(older), rewritten, proof)).toThrow();
          expect(() => verifyConsistency(treeOf(newer), treeOf(older), proof)).toThrow();
        }
        expect(() => verifyConsistency(treeOf(older), treeOf(newer), [...proof, other])).toThrow();
      }),
      { numRuns: 150 },
    );
  });
});

test("takes an empty proof alone for a tree that begins with nothing", () => {
  const { tree } = new GrownTree().grow(5);
  const nothing = { size: 0, root: emptyRoot };
  verifyConsistency(nothing, tree, []);
  expect(() => verifyConsistency(nothing, tree, [tree.root])).toThrow();
});

test.each([-1, 7, 1.5, Number.NaN])("refuses a proof for the index %d", (index) => {
  const { tree } = new GrownTree().grow(7);
  expect(() => LogProof.verifyInclusion(tree, index, Hash.ofLeaf(entryAt(0)), [])).toThrow();
});
