import { sha256 } from "@noble/hashes/sha2.js";
import type { Bytes } from "../pki/encoding/bytes.ts";

/** A SHA-256 digest. */
export type Hash = Bytes;

/** Hashes of a tree. */
export const Hash = {
  /** The length of a SHA-256 hash in octets. */
  octets: 32,

  /** The hash of a leaf: SHA-256 of 0x00 and the entry (RFC 6962 §2.1). */
  ofLeaf(entry: Uint8Array): Hash {
    return emptyHash._cloneInto(hash).update(leafPrefix).update(entry).digest() as Hash;
  },

  /** The hash of a node above two subtrees: SHA-256 of 0x01 and their hashes (RFC 6962 §2.1). */
  ofNode(left: Hash, right: Hash): Hash {
    return emptyHash
      ._cloneInto(hash)
      .update(nodePrefix)
      .update(left)
      .update(right)
      .digest() as Hash;
  },
};

/** A tree: how many entries it has, and its root. */
export interface Tree {
  readonly size: number;
  readonly root: Hash;
}

const emptyHash = sha256.create();
const hash = sha256.create();
const leafPrefix = Uint8Array.of(0);
const nodePrefix = Uint8Array.of(1);

/** The root of a tree without entries (RFC 9162 §2.1.1). */
export const emptyRoot: Hash = sha256(new Uint8Array()) as Hash;

/** The size of the left subtree of a tree of two or more entries: the largest power of two below the size. */
export function leftSize(size: number): number {
  let power = 1;
  while (2 * power < size) power *= 2;
  return power;
}

/** The root over the hashes of a complete subtree. Their number must be a power of two. */
export function completeRoot(hashes: readonly Hash[]): Hash {
  let row = hashes;
  while (row.length > 1) row = pairwise(row);
  const [root] = row;
  if (!root) throw new Error("a subtree without hashes");
  return root;
}

function pairwise(row: readonly Hash[]): readonly Hash[] {
  const above: Hash[] = [];
  for (let i = 0; i < row.length; i += 2) {
    const [left, right] = [row[i], row[i + 1]];
    if (!left || !right) throw new Error("a subtree that is not complete");
    above.push(Hash.ofNode(left, right));
  }
  return above;
}
