import { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { Hash, leftSize, type Tree } from "../../../src/tlog/merkle.ts";

/** Entries `from` to before `to`. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * Verifies that a tree begins with all entries of an older one (RFC 9162 §2.1.4).
 *
 * @throws Error
 */
export function verifyConsistency(older: Tree, newer: Tree, proof: readonly Hash[]): void {
  if (isConsistent(older, newer, proof)) return;
  throw new Error(`the tree of ${newer.size} entries does not extend the one of ${older.size}`);
}

function isConsistent(older: Tree, newer: Tree, proof: readonly Hash[]): boolean {
  if (older.size === 0) return proof.length === 0;
  if (older.size > newer.size) return false;
  const roots = rootsOver({ from: 0, to: newer.size }, older, proof);
  return !!roots && Bytes.equal(roots.older, older.root) && Bytes.equal(roots.newer, newer.root);
}

interface Roots {
  readonly older: Hash;
  readonly newer: Hash;
}

function rootsOver({ from, to }: Range, older: Tree, proof: readonly Hash[]): Roots | undefined {
  const last = proof.at(-1);
  if (older.size === to) {
    // The older root is known; every other subtree of both trees comes with the proof.
    const whole = from === 0 ? older.root : last;
    const isExact = proof.length === (from === 0 ? 0 : 1);
    return whole && isExact ? { older: whole, newer: whole } : undefined;
  }
  if (!last) return undefined;
  const middle = from + leftSize(to - from);
  const rest = proof.slice(0, -1);
  if (older.size <= middle) {
    const roots = rootsOver({ from, to: middle }, older, rest);
    return roots && { older: roots.older, newer: Hash.ofNode(roots.newer, last) };
  }
  const roots = rootsOver({ from: middle, to }, older, rest);
  return roots && { older: Hash.ofNode(last, roots.older), newer: Hash.ofNode(last, roots.newer) };
}
