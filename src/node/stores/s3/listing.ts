import { FetchError } from "../../../foundation/fetch.ts";
import { type SendToBucket, versionOf } from "./bucket-client.ts";
import { parseXml, textOf, type XmlElement } from "./xml.ts";

/** An object in a list. */
export interface ListedObject {
  readonly name: string;
  readonly version: string;
}

/** A thousand objects with the longest names and owners. */
const maximumPageOctets = 4 * 1024 * 1024;

const pageSize = 1000;

/**
 * Lists the objects whose names begin with this prefix (`ListObjectsV2`), page by page. A page with an object
 * twice, or with another prefix, is refused.
 *
 * @throws FetchError, also for more objects than the maximum.
 */
export async function listObjects(
  send: SendToBucket,
  prefix: string,
  maximum: number,
  signal: AbortSignal,
): Promise<readonly ListedObject[]> {
  const objects = new Map<string, ListedObject>();
  let token = "";
  // Every page but the last has an object, so there are no more pages than objects.
  do {
    const page = await requestPage(send, prefix, token, signal);
    for (const object of page.objects) {
      if (!object.name.startsWith(prefix) || objects.has(object.name)) throw notListed();
      objects.set(object.name, object);
    }
    if (objects.size > maximum) throw new FetchError("has more objects than the records of any CA");
    if (page.next !== "" && page.objects.length === 0) throw notListed();
    token = page.next;
  } while (token !== "");
  return [...objects.values()];
}

interface Page {
  readonly objects: readonly ListedObject[];
  /** The token of the next page; empty at the end. */
  readonly next: string;
}

async function requestPage(
  send: SendToBucket,
  prefix: string,
  token: string,
  signal: AbortSignal,
): Promise<Page> {
  const query = {
    "list-type": "2",
    "encoding-type": "url",
    "max-keys": `${pageSize}`,
    prefix,
    ...(token !== "" && { "continuation-token": token }),
  };
  const answer = await send({ method: "GET", name: "", query, signal }, maximumPageOctets);
  if (answer.outcome !== "done") throw notListed();
  return parsePage(new TextDecoder().decode(answer.octets ?? new Uint8Array()));
}

function parsePage(text: string): Page {
  const list = parseXml(text);
  const truncated = textOf(list, "IsTruncated");
  const next = textOf(list, "NextContinuationToken");
  // Without its end, a list is not whole.
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
  if (name === "" || version === "") throw notListed();
  return { name, version };
}

function decoded(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll("+", " "));
  } catch {
    throw notListed();
  }
}

const notListed = (): FetchError => new FetchError("answered something else than a list");
