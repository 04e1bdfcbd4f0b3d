import { createHash, createHmac, randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { AwsKeys } from "../../../src/custody/key-service/aws-signature.ts";
import type { BucketPlace } from "../../../src/node/stores/store-place.ts";
import { listenOnLoopback } from "../network/loopback.ts";
import { lastingFolder } from "../temporary-folder.ts";

interface S3Object {
  readonly body: string;
  readonly entityTag: string;
  readonly bodyBefore?: string;
  /** When it was written, in milliseconds of the service's clock. */
  readonly at?: number;
}

/** An answer in place of the service's own; `undefined` lets it answer. */
type Instead = (request: IncomingMessage, response: ServerResponse) => boolean;

interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/**
 * A stand-in for an S3-compatible service with one bucket, over real HTTP: signatures, entity tags of the
 * content, conditional writes, pages. It follows the documented API; `test/interop/s3` runs the same contract
 * against a real service.
 */
export interface S3Api {
  readonly origin: string;
  readonly place: BucketPlace;
  /** The keys of a configuration whose store is in the bucket, without a credential. */
  readonly storeKeys: Readonly<Record<string, string>>;
  /** Bodies by the names of objects: a character for each octet. */
  readonly objects: Map<string, S3Object>;
  /** What lists and reads show instead, as a copy in another region that is behind. */
  shown: ReadonlyMap<string, S3Object> | undefined;
  /** Method and path of each request. */
  readonly asked: string[];
  /** The clock of the service. */
  now: () => number;
  /** Whether it takes no notice of `start-after`. */
  ignoresStart: boolean;
  readonly put: (name: string, body: string) => void;
  /** The credential that it takes. */
  credential: AwsKeys;
  /** A condition that it ignores, as some services do. */
  ignores: "if-match" | "if-match-of-nothing" | "if-none-match" | undefined;
  /** The condition that it judges for two writers at once before it writes for either, as some services did. */
  races: "if-match" | "if-none-match" | undefined;
  instead: Instead | undefined;
  /** How many reads answer the octets of the object before, beside the tag of the last write. */
  tornReads: number;
  /** Whether tags are no digests, as with keys in KMS. */
  hasOpaqueTags: boolean;
  /** Whether the answer to a request is lost after it has been carried out. */
  loses: ((request: IncomingMessage) => boolean) | undefined;
  readonly close: () => Promise<void>;
}

export const s3Credential: AwsKeys = {
  accessKeyId: "AKIDOFTHETEST",
  secretAccessKey: "secret/of+the/test",
  sessionToken: undefined,
};

/** Writes a file as S3_CREDENTIALS_FILE names one. @returns Its path. */
export async function s3CredentialsFile(accessKeyId = s3Credential.accessKeyId): Promise<string> {
  const path = join(await lastingFolder(), "credentials");
  await rotateS3Credential(path, accessKeyId);
  return path;
}

export const rotateS3Credential = (path: string, accessKeyId: string): Promise<void> =>
  writeFile(
    path,
    `[default]\naws_access_key_id=${accessKeyId}\naws_secret_access_key=${s3Credential.secretAccessKey}\n`,
  );

const bucket = "rampart-store";
const region = "eu-test-1";
/** Pages are small, so that there are several. */
const pageSize = 7;

export async function startS3Api(): Promise<S3Api> {
  const objects = new Map<string, S3Object>();
  const asked: string[] = [];

  function put(name: string, body: string): S3Object {
    const digest = createHash("md5").update(body, "latin1").digest("hex");
    const tag = api.hasOpaqueTags ? digest.toUpperCase() : digest;
    const bodyBefore = objects.get(name)?.body ?? "";
    const object = { body, bodyBefore, entityTag: `"${tag}"`, at: api.now() };
    objects.set(name, object);
    return object;
  }

  let racer: (() => void) | undefined;
  /** Resolves once a second writer has come, or after a time in which any would have. */
  async function secondRacer(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (racer) racer();
    else {
      racer = resolve;
      await Promise.race([promise, sleep(2_000, undefined, { ref: false })]);
      racer = undefined;
    }
  }

  async function write({ headers }: IncomingMessage, name: string, body: string): Promise<Answer> {
    const known = objects.get(name);
    const { "if-match": match, "if-none-match": noneMatch } = headers;
    if (match !== undefined && api.ignores !== "if-match") {
      const isFree = !known && api.ignores === "if-match-of-nothing";
      if (!known && !isFree) return failure(404, "NoSuchKey");
      if (known && known.entityTag !== match) return failure(412, "PreconditionFailed");
    }
    if (noneMatch === "*" && known && api.ignores !== "if-none-match")
      return failure(412, "PreconditionFailed");
    if (api.races !== undefined && headers[api.races] !== undefined) await secondRacer();
    return { status: 200, headers: { etag: put(name, body).entityTag } };
  }

  function list({ searchParams }: URL): Answer {
    const prefix = searchParams.get("prefix") ?? "";
    const token = (searchParams.get("continuation-token") ?? "").slice(reserved.length);
    const start = api.ignoresStart ? "" : (searchParams.get("start-after") ?? "");
    const from = token || start;
    const names = [...(api.shown ?? objects).keys()]
      .filter((name) => name.startsWith(prefix))
      .toSorted();
    const rest = names.filter((name) => name > from);
    const page = rest.slice(0, pageSize);
    const isTruncated = rest.length > page.length;
    return { status: 200, body: listDocument(page, isTruncated ? (page.at(-1) ?? "") : undefined) };
  }

  function listDocument(names: readonly string[], next: string | undefined): string {
    const contents = names.map((name) => {
      const { entityTag = "", at = 0 } = (api.shown ?? objects).get(name) ?? {};
      const tag = entityTag.replaceAll('"', "&quot;");
      const key = encodeURIComponent(name);
      const modified = `<LastModified>${new Date(at).toISOString()}</LastModified>`;
      return `<Contents><Key>${key}</Key>${modified}<ETag>${tag}</ETag><Owner><ID>1</ID></Owner></Contents>`;
    });
    const continuation =
      next === undefined ? "" : `<NextContinuationToken>${reserved}${next}</NextContinuationToken>`;
    return `<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>${bucket}</Name><EncodingType>url</EncodingType><IsTruncated>${next !== undefined}</IsTruncated>${continuation}${contents.join("")}</ListBucketResult>`;
  }

  async function answerOf(request: IncomingMessage, url: URL, body: string): Promise<Answer> {
    if (url.pathname !== `/${bucket}` && !url.pathname.startsWith(`/${bucket}/`))
      return failure(404, "NoSuchBucket");
    const name = url.pathname.slice(bucket.length + 2);
    if (request.method === "PUT") return write(request, name, body);
    if (request.method === "DELETE") {
      objects.delete(name);
      return { status: 204 };
    }
    if (name === "") return list(url);
    const object = (api.shown ?? objects).get(name);
    if (!object) return failure(404, "NoSuchKey");
    const { entityTag: etag, body: last, bodyBefore = last } = object;
    const isTorn = api.tornReads > 0 && bodyBefore !== "";
    if (isTorn) api.tornReads--;
    return { status: 200, headers: { etag }, body: isTorn ? bodyBefore : last };
  }

  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString("latin1");
    const url = new URL(request.url ?? "/", "http://a");
    asked.push(`${request.method} ${url.pathname}`);
    if (api.instead?.(request, response)) return;
    const refusal = signatureFault(request, url, body, api.credential);
    const answer =
      refusal === undefined ? await answerOf(request, url, body) : failure(403, refusal);
    if (api.loses?.(request)) response.destroy();
    else response.writeHead(answer.status, answer.headers).end(answer.body ?? "", "latin1");
  });
  const { host, close } = await listenOnLoopback(server);
  const api: S3Api = {
    origin: `http://${host}`,
    storeKeys: {
      STORE: "s3",
      STORE_BUCKET: bucket,
      STORE_PREFIX: "mesh-1/",
      S3_ENDPOINT: `http://${host}`,
      S3_REGION: region,
    },
    place: {
      kind: "s3",
      bucket,
      prefix: "mesh-1/",
      region,
      rootsFile: undefined,
      url: `http://${host}/${bucket}`,
      credentials: async () => s3Credential,
    },
    objects,
    shown: undefined,
    asked,
    now: () => Date.now(),
    ignoresStart: false,
    put: (name, body) => void put(name, `rampart object 1 ${randomUUID()}\n${body}`),
    credential: s3Credential,
    ignores: undefined,
    races: undefined,
    instead: undefined,
    tornReads: 0,
    hasOpaqueTags: false,
    loses: undefined,
    close,
  };
  return api;
}

/** An error as S3 writes it. It quotes the request, as the real one does. */
export function failure(status: number, code: string): Answer {
  const quoted = "<StringToSign>secret/of+the/test</StringToSign>";
  return { status, body: `<Error><Code>${code}</Code><Message>no</Message>${quoted}</Error>` };
}

const sha256 = (text: string): string => createHash("sha256").update(text, "latin1").digest("hex");
const hmac = (key: string | Buffer, text: string): Buffer =>
  createHmac("sha256", key).update(text).digest();

/** What a token may hold, and `encodeURIComponent` leaves as it is. */
const reserved = "!'()*";
const inRfc3986 = (text: string): string =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    (letter) => `%${Buffer.from(letter).toString("hex").toUpperCase()}`,
  );

/** Signature Version 4, by its specification and without the library that signs. */
export function signatureFault(
  { method, headers }: Pick<IncomingMessage, "method" | "headers">,
  url: URL,
  body: string,
  credential: AwsKeys,
): string | undefined {
  const [, accessKeyId, day = "", names = "", signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/eu-test-1\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? "",
    ) ?? [];
  if (accessKeyId !== credential.accessKeyId) return "InvalidAccessKeyId";
  if (headers["x-amz-security-token"] !== credential.sessionToken) return "InvalidToken";
  if (headers["x-amz-content-sha256"] !== sha256(body)) return "XAmzContentSHA256Mismatch";
  const query = [...url.searchParams]
    .map((pair) => pair.map(inRfc3986).join("="))
    .toSorted()
    .join("&");
  const signed = names.split(";");
  const mustSign = ["host", "if-match", "if-none-match", "x-amz-content-sha256", "x-amz-date"];
  if (mustSign.some((name) => headers[name] !== undefined && !signed.includes(name)))
    return "AccessDenied";
  const lines = signed.map((name) => `${name}:${headers[name]}\n`).join("");
  const request = [method, url.pathname, query, lines, names, sha256(body)].join("\n");
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, sha256(request)].join("\n");
  const key = [day, region, "s3", "aws4_request"].reduce<string | Buffer>(
    hmac,
    `AWS4${credential.secretAccessKey}`,
  );
  return hmac(key, text).toString("hex") === signature ? undefined : "SignatureDoesNotMatch";
}
