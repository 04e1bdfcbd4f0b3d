import type { Bytes } from "../../pki/encoding/bytes.ts";
import { DerReader, Tag } from "../../pki/encoding/der-reader.ts";

/** The constraints of one certificate on URIs (RFC 5280 §4.2.1.10); an absent list is an empty one. */
interface UriConstraints {
  readonly permitted: readonly string[];
  readonly excluded: readonly string[];
}

const uri = Tag.contextPrimitive(6);

/**
 * Whether name constraints allow URIs of this host, for every verifier. RFC 5280 takes a host for itself
 * alone, Go for the hosts below it as well. So a host must be permitted by both readings, and is
 * excluded by either.
 *
 * @param value The NameConstraints, DER.
 * @throws DerError
 */
export function admitsHost(value: Bytes, host: string): boolean {
  const { permitted, excluded } = readUriConstraints(value);
  const isPermitted = permitted.length === 0 || permitted.some((base) => isExactly(base, host));
  return isPermitted && !excluded.some((base) => isExactly(base, host) || isBelow(base, host));
}

/** An empty base matches every host (Go); a base with a leading dot matches the hosts below it. */
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
