import { hash } from "node:crypto";
import { AwsKeys } from "../../custody/key-service/aws-signature.ts";
import { KeyServiceError } from "../../custody/key-service/key-service.ts";
import { messageOf } from "../../foundation/errors.ts";
import {
  AnswerTooLong,
  type Fetch,
  FetchError,
  Fetching,
  ResponseBody,
  toFetchError,
} from "../../foundation/fetch.ts";
import { RetryAfter } from "../../foundation/headers.ts";
import {
  type ListedObject,
  notListed,
  type ObjectPage,
  parseErrorCode,
  parsePage,
  versionOf,
} from "./bucket-answers.ts";
import type { BucketPlace } from "./store-place.ts";

/** One request for an object of a bucket, or for the bucket itself. */
interface BucketRequest {
  readonly method: "GET" | "PUT" | "DELETE";
  /** The name of the object, without characters that need an escape; empty for the bucket. */
  readonly name: string;
  readonly query?: Readonly<Record<string, string>>;
  /** The version that a PUT must replace; `undefined` if there must be no object. A PUT without `replaces` always writes. */
  readonly replaces?: { readonly version: string | undefined };
  readonly body?: string | Uint8Array<ArrayBuffer>;
  /** The SHA-256 of the body in hexadecimal, if the caller knows it. */
  readonly digest?: string | undefined;
  /** Aborts the request before its timeout. */
  readonly signal?: AbortSignal;
}

/** The answer to a request: done, or no object has the name (`missing`), or the condition failed (`conflict`). */
export type BucketAnswer =
  | { readonly outcome: "done"; readonly version: string; readonly octets: Uint8Array | undefined }
  | { readonly outcome: "missing" | "conflict" };

/**
 * Sends one signed request to a service that may be slow, unreachable, broken or hostile. Time and size of the answer
 * are bounded, and no redirect is followed.
 *
 * @param maximumOctets The longest answer that is read; the octets of a longer one are `undefined`.
 * @throws FetchError
 */
export type SendToBucket = (
  request: BucketRequest,
  maximumOctets?: number,
) => Promise<BucketAnswer>;

/** Enough for an error, or for the answer to a PUT. */
const usualMaximumOctets = 65_536;

/** Creates the function that signs a request to a bucket, sends it, and bounds the time of its response. */
export function createBucketClient(
  place: Pick<BucketPlace, "url" | "region" | "bucket" | "credentials">,
  fetch: Fetch,
  clock: () => Date,
): SendToBucket {
  async function responseTo(request: BucketRequest, signal: AbortSignal): Promise<Response> {
    const [url, init] = await signed(place, request, clock());
    try {
      return await fetch(url, { ...init, redirect: "manual", signal });
    } catch (error) {
      throw toFetchError(error, "did not answer");
    }
  }

  async function answerTo(
    request: BucketRequest,
    maximumOctets: number,
    signal: AbortSignal,
  ): Promise<BucketAnswer> {
    const response = await responseTo(request, signal);
    const { status, headers } = response;
    if (status === 200 || status === 204) {
      const version = versionOf(headers.get("etag") ?? "");
      return { outcome: "done", version, octets: await octetsOf(response, maximumOctets) };
    }
    const code = await codeOf(response);
    if (status === 404 && code === "NoSuchKey") return { outcome: "missing" };
    if (status === 412) return { outcome: "conflict" };
    throw faultOf(place.bucket, request, response, code);
  }

  return async (request, maximumOctets = usualMaximumOctets) => {
    const ending = new AbortController();
    const late = (): void => ending.abort(new DOMException("did not answer", "TimeoutError"));
    const timer = setTimeout(late, Fetching.usualTimeoutMilliseconds);
    const { signal: own } = request;
    const signal = own ? AbortSignal.any([own, ending.signal]) : ending.signal;
    try {
      return await answerTo(request, maximumOctets, signal);
    } finally {
      // A platform's timeout signal would still fire later, and create an error with its stack.
      clearTimeout(timer);
    }
  };
}

async function octetsOf(response: Response, maximum: number): Promise<Uint8Array | undefined> {
  try {
    return await ResponseBody.readOctets(response, maximum);
  } catch (error) {
    if (error instanceof AnswerTooLong) return undefined;
    throw error;
  }
}

/** The arguments of `fetch` for a request. The signature covers its condition and the octets of its body. */
async function signed(
  { url: place, region, credentials }: Pick<BucketPlace, "url" | "region" | "credentials">,
  { method, name, query, replaces, body = "", digest = hash("sha256", body, "hex") }: BucketRequest,
  now: Date,
): Promise<[url: string, init: RequestInit]> {
  const keys = await credentials(now).catch((error: unknown) => {
    const why = error instanceof KeyServiceError ? "" : "cannot be asked: ";
    throw new FetchError(`${why}${messageOf(error)}`, { cause: error });
  });
  const url = new URL(name === "" ? place : `${place}/${name}`);
  const pairs = Object.entries(query ?? {}).map((pair) => pair.map(escaped).join("="));
  url.search = pairs.toSorted().join("&");
  const condition = replaces && conditionOf(replaces);
  const request = {
    method,
    url,
    headers: { ...condition, "x-amz-content-sha256": digest },
    digest,
  };
  const headers = await AwsKeys.signedHeaders(request, keys, [region, "s3"], now);
  return [url.href, { method, headers, ...(method === "PUT" && { body }) }];
}

/** Escapes like AWS: more characters than `encodeURIComponent`, as RFC 3986 reserves them, with upper-case digits. */
const escaped = (part: string): string =>
  encodeURIComponent(part).replace(
    /[!'()*]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  );

const conditionOf = ({
  version,
}: NonNullable<BucketRequest["replaces"]>): Readonly<Record<string, string>> =>
  version === undefined ? { "if-none-match": "*" } : { "if-match": `"${version}"` };

async function codeOf(response: Response): Promise<string> {
  try {
    return parseErrorCode(await ResponseBody.readText(response, usualMaximumOctets));
  } catch (error) {
    if (error instanceof FetchError) return "";
    throw error;
  }
}

const otherPlace = [301, 302, 303, 307, 308];
const credentialRefused = ["ExpiredToken", "InvalidToken", "TokenRefreshRequired"];

function faultOf(
  bucket: string,
  { method }: BucketRequest,
  { status, headers }: Response,
  code: string,
): FetchError {
  const reason = code === "" ? `status ${status}` : `status ${status}, ${code}`;
  const sentence = (): string => {
    if (code === "NoSuchBucket") return `has no bucket ${bucket}`;
    if (code === "RequestTimeTooSkewed")
      return "refuses the time of the request: set the clock of this machine";
    if (otherPlace.includes(status) || code === "AuthorizationHeaderMalformed")
      return `has bucket ${bucket} elsewhere (${reason}): correct S3_REGION or S3_ENDPOINT`;
    if (status === 401 || status === 403 || credentialRefused.includes(code))
      return `refuses the credential for ${method} (${reason})`;
    return `answered ${method} with ${reason}`;
  };
  const retryAfterSeconds = RetryAfter.parse(headers.get(RetryAfter.header));
  return new FetchError(sentence(), { status, retryAfterSeconds });
}

/** Enough for a thousand objects with the longest names and owners. */
const maximumPageOctets = 4 * 1024 * 1024;

const pageSize = 1000;

/**
 * Lists the objects whose names begin with this prefix and come after a name (`ListObjectsV2`), page by page. A page
 * with an object twice, or with another prefix, is refused. A service that ignores `after` lists all.
 *
 * @throws FetchError, also for more objects than the maximum.
 */
export async function listObjects(
  send: SendToBucket,
  listed: ListedNames,
  maximum: number,
  signal: AbortSignal,
): Promise<readonly ListedObject[]> {
  const objects = new Map<string, ListedObject>();
  let token = "";
  // Every page but the last has an object, so there are no more pages than objects.
  do {
    const page = await requestPage(send, listed, token, signal);
    for (const object of page.objects) {
      if (!object.name.startsWith(listed.prefix) || objects.has(object.name)) throw notListed();
      objects.set(object.name, object);
    }
    if (objects.size > maximum) throw new FetchError("has more objects than the records of any CA");
    if (page.next !== "" && page.objects.length === 0) throw notListed();
    token = page.next;
  } while (token !== "");
  return [...objects.values()];
}

interface ListedNames {
  readonly prefix: string;
  readonly after?: string;
}

async function requestPage(
  send: SendToBucket,
  { prefix, after }: ListedNames,
  token: string,
  signal: AbortSignal,
): Promise<ObjectPage> {
  const query = {
    "list-type": "2",
    "encoding-type": "url",
    "max-keys": `${pageSize}`,
    prefix,
    ...(token !== "" ? { "continuation-token": token } : after && { "start-after": after }),
  };
  const answer = await send({ method: "GET", name: "", query, signal }, maximumPageOctets);
  if (answer.outcome !== "done") throw notListed();
  return parsePage(new TextDecoder().decode(answer.octets ?? new Uint8Array()));
}
