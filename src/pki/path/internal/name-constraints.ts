import type { Bytes } from "../../encoding/bytes.ts";
import { DerError, type DerReader, Tag } from "../../encoding/der-reader.ts";
import {
  relativeNamesOf,
  requireDistinguishedName,
} from "../../x509/internal/distinguished-name.ts";

/** The constraints of one certificate (RFC 5280 §4.2.1.10); an absent list is an empty one. */
export interface NameConstraints {
  readonly permitted: readonly GeneralName[];
  readonly excluded: readonly GeneralName[];
}

/**
 * Reads the content of NameConstraints. @throws DerError for an empty extension, for a minimum or maximum, which RFC 5280
 * rules out, and for an IP range of neither eight nor 32 octets.
 */
export function readNameConstraints(fields: DerReader): NameConstraints {
  const permitted = readSubtrees(fields, Tag.contextConstructed(0));
  const excluded = readSubtrees(fields, Tag.contextConstructed(1));
  fields.finish();
  if (permitted.length + excluded.length === 0) throw new DerError("no constraint");
  return { permitted, excluded };
}

function readSubtrees(fields: DerReader, tag: number): readonly GeneralName[] {
  if (!fields.nextIs(tag)) return [];
  return readList(fields.enter(tag), (list) => {
    const subtree = list.enter(Tag.sequence);
    const base = readGeneralName(subtree);
    subtree.finish();
    if (base.kind === "ip" && base.octets !== 8 && base.octets !== 32) {
      throw new DerError("no range of IP addresses");
    }
    return base;
  });
}

/** Reads the elements of a list, at least one, to its end. */
export function readList<T>(list: DerReader, read: (list: DerReader) => T): readonly T[] {
  const elements: T[] = [];
  do elements.push(read(list));
  while (!list.isDone);
  return elements;
}

/**
 * Whether name constraints allow URIs of this host, for every verifier. To RFC 5280, a constraint on a host is on that
 * host alone; to Go, also on the hosts below it. So a host must be permitted by both readings, and is excluded by either.
 */
export function admitsHost(constraints: NameConstraints, host: string): boolean {
  const isHost = ({ text }: GeneralName): boolean => isExactly(text, host);
  return admits(constraints, "uri", isHost, (base) => isHost(base) || isBelow(base.text, host));
}

/** Whether name constraints allow this subject, DER. A constraint is on every subject that begins with its parts. */
export function admitsSubject(constraints: NameConstraints, subject: Bytes): boolean {
  const own = relativeNamesOf(subject);
  const contains = ({ relativeNames }: GeneralName): boolean =>
    relativeNames.every((part, i) => part === own[i]);
  return admits(constraints, "directory", contains);
}

/**
 * Whether name constraints allow a name in the certificate of an authority below (RFC 5280 §6.1.4 (b)), for every
 * verifier. A constraint on another kind than URI or DNS forbids every name of that kind: no CA of a mesh has one.
 */
export function admitsName(constraints: NameConstraints, { kind, text }: GeneralName): boolean {
  const { permitted, excluded } = constraints;
  if (kind === "uri") return admitsHost(constraints, hostOf(text));
  if (kind !== "dns") return [...permitted, ...excluded].every((base) => base.kind !== kind);
  const name = text.toLowerCase();
  const contains = ({ text: base }: GeneralName): boolean =>
    isExactly(base, name) || isBelow(base, name);
  return admits(constraints, kind, contains);
}

/** Whether a name is permitted by one of the constraints on its kind, or there are none, and excluded by none. */
function admits(
  { permitted, excluded }: NameConstraints,
  kind: NameKind,
  isPermittedBy: (base: GeneralName) => boolean,
  isExcludedBy: (base: GeneralName) => boolean = isPermittedBy,
): boolean {
  const isOfKind = (base: GeneralName): boolean => base.kind === kind;
  const bases = permitted.filter(isOfKind);
  const isPermitted = bases.length === 0 || bases.some(isPermittedBy);
  return isPermitted && !excluded.filter(isOfKind).some(isExcludedBy);
}

const hostOf = (uri: string): string => /^[^:]+:\/\/([^/:?#]*)/.exec(uri)?.[1]?.toLowerCase() ?? "";

/** Whether a base is this host. An empty base is every host (Go); one with a leading dot is every host below it. */
function isExactly(base: string, host: string): boolean {
  const wanted = base.toLowerCase();
  return wanted === "" || wanted === host || (wanted.startsWith(".") && host.endsWith(wanted));
}

const isBelow = (base: string, host: string): boolean => host.endsWith(`.${base.toLowerCase()}`);

/** The kinds of name that a verifier of a mesh compares, and all others. */
export type NameKind = "email" | "dns" | "uri" | "ip" | "directory" | "other";

/** One GeneralName (RFC 5280 §4.2.1.6). */
export interface GeneralName {
  readonly kind: NameKind;
  /** The text of an email, DNS or URI name; empty for every other kind. */
  readonly text: string;
  /** The number of content octets. */
  readonly octets: number;
  /** The parts of a directory name, as {@link relativeNamesOf} gives them; empty for every other kind. */
  readonly relativeNames: readonly string[];
}

/** otherName, x400Address and ediPartyName. */
const structured: readonly number[] = [0, 3, 5].map(Tag.contextConstructed);

const kinds: ReadonlyMap<number, NameKind> = new Map([
  [Tag.contextPrimitive(1), "email"],
  [Tag.contextPrimitive(2), "dns"],
  [Tag.contextConstructed(4), "directory"],
  [Tag.contextPrimitive(6), "uri"],
  [Tag.contextPrimitive(7), "ip"],
  [Tag.contextPrimitive(8), "other"],
]);

const textKinds: readonly NameKind[] = ["email", "dns", "uri"];

/** Reads the next GeneralName. @throws DerError for anything else */
export function readGeneralName(names: DerReader): GeneralName {
  const [tag, content] = names.any();
  const kind = structured.includes(tag) ? "other" : kinds.get(tag);
  if (kind === undefined) throw new DerError("a name of no kind of RFC 5280 §4.2.1.6");
  const octets = content.length;
  const isDirectory = kind === "directory";
  if (isDirectory) requireDistinguishedName(content.rest());
  const relativeNames = isDirectory ? relativeNamesOf(content.rest()) : [];
  const text = textKinds.includes(kind) ? readIa5(content) : "";
  if (structured.includes(tag)) content.skipAll();
  return { kind, text, octets, relativeNames };
}

/** Reads an IA5String, and refuses control characters, which no name of a mesh has. */
function readIa5(content: DerReader): string {
  let text = "";
  while (!content.isDone) {
    const octet = content.octet();
    if (octet < 0x20 || octet > 0x7e) throw new DerError("a name that is not printable ASCII");
    text += String.fromCharCode(octet);
  }
  return text;
}

/**
 * The names of a subject alternative name, whose URIs {@link parseForeignAuthority} has checked.
 *
 * @throws DerError if there is no name (RFC 5280 §4.2.1.6), and for an IP address of neither four nor sixteen octets.
 */
export function readNames(list: DerReader): readonly GeneralName[] {
  const names = readList(list, readGeneralName);
  if (names.some(({ kind, octets }) => kind === "ip" && octets !== 4 && octets !== 16)) {
    throw new DerError("no IP address");
  }
  return names;
}
