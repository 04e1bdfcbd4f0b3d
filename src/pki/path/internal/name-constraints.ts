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
 * Reads NameConstraints. @throws DerError for an empty extension, for a minimum or maximum, which RFC 5280 rules out, and
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
 * Whether name constraints allow URIs of this host, for every verifier. To RFC 5280, a constraint on a host is on that
 * host alone; to Go, also on the hosts below it. So a host must be permitted by both readings, and is excluded by either.
 */
export function admitsHost(constraints: NameConstraints, host: string): boolean {
  const permitted = hostsOf(constraints.permitted);
  const excluded = hostsOf(constraints.excluded);
  const isPermitted = permitted.length === 0 || permitted.some((base) => isExactly(base, host));
  return isPermitted && !excluded.some((base) => isExactly(base, host) || isBelow(base, host));
}

/** Whether name constraints allow this subject, DER. A constraint is on every subject that begins with its parts. */
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

/**
 * Whether name constraints allow a name in the certificate of an authority below (RFC 5280 §6.1.4 (b)), for every
 * verifier. A constraint on another kind than URI or DNS forbids every name of that kind: no CA of a mesh has one.
 */
export function admitsName(constraints: NameConstraints, { kind, text }: GeneralName): boolean {
  const { permitted, excluded } = constraints;
  if (kind === "uri") return admitsHost(constraints, hostOf(text));
  const isOfKind = (base: GeneralName): boolean => base.kind === kind;
  if (kind !== "dns") return !permitted.some(isOfKind) && !excluded.some(isOfKind);
  const name = text.toLowerCase();
  const contains = ({ text: base }: GeneralName): boolean =>
    isExactly(base, name) || isBelow(base, name);
  const bases = permitted.filter(isOfKind);
  return (bases.length === 0 || bases.some(contains)) && !excluded.filter(isOfKind).some(contains);
}

const hostOf = (uri: string): string => /^[^:]+:\/\/([^/:?#]*)/.exec(uri)?.[1]?.toLowerCase() ?? "";

const hostsOf = (bases: readonly GeneralName[]): string[] =>
  bases.filter(({ kind }) => kind === "uri").map(({ text }) => text);

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

const textKinds: ReadonlyMap<number, NameKind> = new Map([
  [Tag.contextPrimitive(1), "email"],
  [Tag.contextPrimitive(2), "dns"],
  [Tag.contextPrimitive(6), "uri"],
]);

const ipAddress = Tag.contextPrimitive(7);
const directoryName = Tag.contextConstructed(4);
const registeredId = Tag.contextPrimitive(8);
/** otherName, x400Address and ediPartyName. */
const constructedKinds = [0, 3, 5].map(Tag.contextConstructed);

/** Reads the next GeneralName. @throws DerError for anything else */
export function readGeneralName(names: DerReader): GeneralName {
  for (const [tag, kind] of textKinds) {
    if (!names.nextIs(tag)) continue;
    const content = names.enter(tag);
    const octets = content.length;
    return { kind, text: readIa5(content), octets, relativeNames: [] };
  }
  if (names.nextIs(ipAddress)) {
    const octets = names.content(ipAddress).length;
    return { kind: "ip", text: "", octets, relativeNames: [] };
  }
  if (names.nextIs(directoryName)) {
    const name = names.content(directoryName);
    requireDistinguishedName(name);
    const relativeNames = relativeNamesOf(name);
    return { kind: "directory", text: "", octets: name.length, relativeNames };
  }
  return readOther(names);
}

function readOther(names: DerReader): GeneralName {
  const tag = [...constructedKinds, registeredId].find((each) => names.nextIs(each));
  if (tag === undefined) throw new DerError("a name of no kind of RFC 5280 §4.2.1.6");
  const content = names.enter(tag);
  const octets = content.length;
  if (tag !== registeredId) content.skipAll();
  return { kind: "other", text: "", octets, relativeNames: [] };
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
export function readNames(value: DerReader): readonly GeneralName[] {
  const list = value.enter(Tag.sequence);
  value.finish();
  const names: GeneralName[] = [];
  do names.push(readGeneralName(list));
  while (!list.isDone);
  if (names.some(({ kind, octets }) => kind === "ip" && octets !== 4 && octets !== 16)) {
    throw new DerError("no IP address");
  }
  return names;
}
