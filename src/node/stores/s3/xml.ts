import { FetchError } from "../../../foundation/fetch.ts";

/** An element of an XML document: its own text, and the elements in it. Attributes and prefixes are dropped. */
export interface XmlElement {
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

/** Deeper than any answer of S3. */
const maximumDepth = 16;

const declaration = /^\ufeff?(?:<\?xml [^?<>]{0,200}\?>)?\s*/;

/** A tag without `<` and `>` in the values of its attributes, then text up to the next one. */
const piece =
  /<(\/?)((?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*))((?:\s+[\w.:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*)\s*(\/?)>([^<]*)/y;

/**
 * Parses the subset of XML that S3 answers: elements, attributes and text. It refuses document types, entities
 * of their own, comments and everything else.
 *
 * @param text Its length is bounded already.
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

/** The text of the only child of a name; empty where there is none. @throws FetchError for two. */
export function textOf({ children }: XmlElement, name: string): string {
  const [first, second] = children.filter((child) => child.name === name);
  if (second) throw malformed();
  return first?.text ?? "";
}
