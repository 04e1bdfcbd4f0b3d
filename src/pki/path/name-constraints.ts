import type { Bytes } from "../encoding/bytes.ts";
import { DerError, type DerReader, Tag } from "../encoding/der-reader.ts";
import { relativeNamesOf } from "../x509/distinguished-name.ts";
import { type GeneralName, readGeneralName } from "./general-names.ts";

/** The constraints of one certificate (RFC 5280 §4.2.1.10); an absent list is an empty one. */
export interface NameConstraints {
  readonly permitted: readonly GeneralName[];
  readonly excluded: readonly GeneralName[];
}

/**
 * Reads NameConstraints. @throws DerError for none, for a minimum or maximum, which RFC 5280 rules out, and
 * for an IP range of neither eight nor 32 octets.
 */
export function readNameConstraints(value: DerReader): NameConstraints {
  const fields = value.enter(Tag.sequence);
  value.finish();
  const permitted = readSubtrees(fields, Tag.contextConstructed(0));
  const excluded = readSubtrees(fields, Tag.contextConstructed(1));
  fields.finish();
  if (permitted.length + excluded.length === 0) throw new DerError("no constraint");
  return { permitted, excluded };
}

function readSubtrees(fields: DerReader, tag: number): readonly GeneralName[] {
  if (!fields.nextIs(tag)) return [];
  const list = fields.enter(tag);
  const bases: GeneralName[] = [];
  do {
    const subtree = list.enter(Tag.sequence);
    const base = readGeneralName(subtree);
    subtree.finish();
    if (base.kind === "ip" && base.octets !== 8 && base.octets !== 32) {
      throw new DerError("no range of IP addresses");
    }
    bases.push(base);
  } while (!list.isDone);
  return bases;
}

/**
 * Whether name constraints allow URIs of this host, for every verifier. RFC 5280 takes a host for itself
 * alone, Go for the hosts below it as well. So a host must be permitted by both readings, and is
 * excluded by either.
 */
export function admitsHost(constraints: NameConstraints, host: string): boolean {
  const permitted = hostsOf(constraints.permitted);
  const excluded = hostsOf(constraints.excluded);
  const isPermitted = permitted.length === 0 || permitted.some((base) => isExactly(base, host));
  return isPermitted && !excluded.some((base) => isExactly(base, host) || isBelow(base, host));
}

/** Whether name constraints allow this subject, DER. Every base that it begins with, part by part, contains it. */
export function admitsSubject({ permitted, excluded }: NameConstraints, subject: Bytes): boolean {
  const own = relativeNamesOf(subject);
  const contains = ({ relativeNames }: GeneralName): boolean =>
    relativeNames.every((part, i) => part === own[i]);
  const isDirectory = ({ kind }: GeneralName): boolean => kind === "directory";
  const bases = permitted.filter(isDirectory);
  return (
    (bases.length === 0 || bases.some(contains)) && !excluded.filter(isDirectory).some(contains)
  );
}

const hostsOf = (bases: readonly GeneralName[]): string[] =>
  bases.filter(({ kind }) => kind === "uri").map(({ text }) => text);

/** An empty base matches every host (Go); a base with a leading dot matches the hosts below it. */
function isExactly(base: string, host: string): boolean {
  const wanted = base.toLowerCase();
  return wanted === "" || wanted === host || (wanted.startsWith(".") && host.endsWith(wanted));
}

const isBelow = (base: string, host: string): boolean => host.endsWith(`.${base.toLowerCase()}`);
