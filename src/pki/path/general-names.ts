import { DerError, type DerReader, Tag } from "../encoding/der-reader.ts";
import { relativeNamesOf, requireDistinguishedName } from "../x509/distinguished-name.ts";

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

/** The octets of an IA5String that is printable: no name of a mesh has control characters. */
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
 * The names of a subject alternative name, whose URIs {@link parseForeignAuthority} has judged.
 *
 * @throws DerError for none (RFC 5280 §4.2.1.6), and for an IP address of neither four nor sixteen octets.
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
