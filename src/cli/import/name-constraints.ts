import type { Bytes } from "../../pki/encoding/bytes.ts";
import { DerReader, Tag } from "../../pki/encoding/der-reader.ts";

/** The constraints of one certificate on URIs (RFC 5280 §4.2.1.10); an absent list says nothing. */
interface UriConstraints {
  readonly permitted: readonly string[];
  readonly excluded: readonly string[];
}

const uri = Tag.contextPrimitive(6);

/**
 * Whether name constraints let URIs of this host be certified, whichever way a verifier reads them:
 * RFC 5280 takes a host as itself alone, Go with everything below it. What is permitted must be so
 * for both, and what is excluded is so for either.
 *
 * @param value The NameConstraints, DER.
 * @throws DerError
 */
export function admitsHost(value: Bytes, host: string): boolean {
  const { permitted, excluded } = readUriConstraints(value);
  const isPermitted = permitted.length === 0 || permitted.some((base) => isExactly(base, host));
  return isPermitted && !excluded.some((base) => isExactly(base, host) || isBelow(base, host));
}

/** An empty base holds every host (Go), and a base with a dot before it the hosts below. */
function isExactly(base: string, host: string): boolean {
  const wanted = base.toLowerCase();
  return wanted === "" || wanted === host || (wanted.startsWith(".") && host.endsWith(wanted));
}

const isBelow = (base: string, host: string): boolean => host.endsWith(`.${base.toLowerCase()}`);

function readUriConstraints(value: Bytes): UriConstraints {
  const outer = new DerReader(value);
  const fields = outer.enter(Tag.sequence);
  outer.finish();
  const permitted = readSubtrees(fields, Tag.contextConstructed(0));
  const excluded = readSubtrees(fields, Tag.contextConstructed(1));
  fields.finish();
  return { permitted, excluded };
}

function readSubtrees(fields: DerReader, tag: number): readonly string[] {
  if (!fields.nextIs(tag)) return [];
  const list = fields.enter(tag);
  const bases: string[] = [];
  while (!list.isDone) {
    const subtree = list.enter(Tag.sequence);
    if (subtree.nextIs(uri)) bases.push(new TextDecoder().decode(subtree.content(uri)));
  }
  return bases;
}
