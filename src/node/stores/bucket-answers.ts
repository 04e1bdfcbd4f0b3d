import { FetchError } from "../../foundation/fetch.ts";

/** An object in a list of a bucket: its full key, its ETag without quotes, and when it was written. */
export interface ListedObject {
  readonly name: string;
  readonly version: string;
  /** In milliseconds since the epoch; 0 if the service does not say. */
  readonly at: number;
}

/** A page of a list of a bucket's objects. */
export interface ObjectPage {
  readonly objects: readonly ListedObject[];
  /** The token of the next page; empty at the end. */
  readonly next: string;
}

/** Parses the answer to `ListObjectsV2`. @throws FetchError */
export function parsePage(text: string): ObjectPage {
  const list = parseXml(text);
  const truncated = textOf(list, "IsTruncated");
  const next = textOf(list, "NextContinuationToken");
  // A list that does not say whether it is truncated is incomplete.
  const isWhole = truncated === "false" || (truncated === "true" && next !== "");
  if (list.name !== "ListBucketResult" || !isWhole || next.length > 4096) throw notListed();
  const isEncoded = textOf(list, "EncodingType") === "url";
  const contents = list.children.filter(({ name }) => name === "Contents");
  return {
    objects: contents.map((each) => listedObject(each, isEncoded)),
    next: truncated === "true" ? next : "",
  };
}

function listedObject(content: XmlElement, isEncoded: boolean): ListedObject {
  const key = textOf(content, "Key");
  const name = isEncoded ? decoded(key) : key;
  const version = versionOf(textOf(content, "ETag"));
  if (name === "") throw notListed();
  if (version === "")
    throw new FetchError("lists objects without ETag, by which a changed object is known");
  return { name, version, at: Date.parse(textOf(content, "LastModified")) || 0 };
}

function decoded(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll("+", " "));
  } catch {
    throw notListed();
  }
}

/** Creates the error for a response that is no list of objects. */
export const notListed = (): FetchError => new FetchError("answered something else than a list");

/** The version in an entity tag, which some services write without quotes; empty for no tag. */
export function versionOf(entityTag: string): string {
  const [, , version = ""] = /^(?:W\/)?("?)([!#-~]{1,128})\1$/.exec(entityTag) ?? [];
  return version;
}

/** The code in an error, such as `SlowDown`, or empty. The rest may quote the request. @throws FetchError for no XML */
export function parseErrorCode(text: string): string {
  const error = parseXml(text);
  const code = error.name === "Error" ? textOf(error, "Code") : "";
  return /^[A-Za-z0-9.]{1,64}$/.test(code) ? code : "";
}

/** An element of an XML document: its own text, and the elements in it. Attributes and prefixes are dropped. */
interface XmlElement {
  readonly name: string;
  readonly children: readonly XmlElement[];
  readonly text: string;
}

interface OpenElement {
  readonly tag: string;
  readonly name: string;
  readonly children: XmlElement[];
  text: string;
}

/** More levels than any answer of S3 has. */
const maximumDepth = 16;

const declaration = /^\ufeff?(?:<\?xml [^?<>]{0,200}\?>)?\s*/;

/** A tag without `<` and `>` in the values of its attributes, then text up to the next one. */
const piece =
  /<(\/?)((?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*))((?:\s+[\w.:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*)\s*(\/?)>([^<]*)/y;

/**
 * Parses the subset of XML that S3 answers: elements, attributes and text. It refuses document types, own entities,
 * comments and everything else.
 *
 * @param text Must have a bounded length.
 * @throws FetchError
 */
export function parseXml(text: string): XmlElement {
  const root: OpenElement = { tag: "", name: "", children: [], text: "" };
  const open = [root];
  piece.lastIndex = declaration.exec(text)?.[0].length ?? 0;
  let end = piece.lastIndex;
  for (let found = piece.exec(text); found; found = piece.exec(text)) {
    end = piece.lastIndex;
    const [, closing, tag = "", name = "", attributes, single, after = ""] = found;
    if (closing && (single || attributes)) throw malformed();
    const top = open.at(-1) ?? root;
    if (closing) {
      if (top.tag !== tag || open.length === 1) throw malformed();
      open.pop();
    } else {
      const element = { tag, name, children: [], text: "" };
      top.children.push(element);
      if (!single) open.push(element);
    }
    if (open.length > maximumDepth) throw malformed();
    const inside = open.at(-1) ?? root;
    inside.text += withoutEntities(after);
  }
  const [document, ...others] = root.children;
  const isWhole = end === text.length && open.length === 1 && root.text.trim() === "";
  if (!document || others.length > 0 || !isWhole) throw malformed();
  return document;
}

const entities: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
};

const entity = /&(?:#(?:(\d{1,7})|x([0-9a-fA-F]{1,6}));|([a-z]{2,4});)?/g;

function withoutEntities(text: string): string {
  return text.replace(
    entity,
    (_: string, decimal?: string, hexadecimal?: string, name?: string) => {
      if (name !== undefined) return entities[name] ?? refuse();
      const code = decimal ? Number(decimal) : Number.parseInt(hexadecimal ?? "", 16);
      return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : refuse();
    },
  );
}

function refuse(): never {
  throw malformed();
}

const malformed = (): FetchError => new FetchError("answered something else than XML of S3");

/** The text of the only child of a name; empty without one. @throws FetchError for two, or one with children. */
function textOf({ children }: XmlElement, name: string): string {
  const [first, second] = children.filter((child) => child.name === name);
  if (second || first?.children[0]) throw malformed();
  return first?.text ?? "";
}
