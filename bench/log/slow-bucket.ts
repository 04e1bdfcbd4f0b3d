import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A bucket in the memory of this process, which answers each request after this time. */
const answerMilliseconds = 20;

const objects = new Map<string, { readonly octets: Buffer; readonly tag: string }>();
let puts = 0;

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  await sleep(answerMilliseconds);
  const { method, url = "", headers } = request;
  const { pathname: name, search, searchParams } = new URL(url, "http://bucket");
  const stored = objects.get(name);
  const fail = (status: number, code: string): void =>
    void response.writeHead(status).end(`<Error><Code>${code}</Code></Error>`);
  if (method === "GET" && search !== "")
    return void response.end(listed(searchParams.get("prefix") ?? ""));
  if (method === "DELETE") {
    objects.delete(name);
    return void response.writeHead(204).end();
  }
  if (method === "GET") {
    if (!stored) return fail(404, "NoSuchKey");
    return void response.writeHead(200, { etag: stored.tag }).end(stored.octets);
  }
  const { "if-match": match, "if-none-match": noneMatch } = headers;
  if (match !== undefined && !stored) return fail(404, "NoSuchKey");
  if (match === undefined ? stored && noneMatch : match !== stored?.tag)
    return fail(412, "PreconditionFailed");
  const octets = Buffer.concat(chunks);
  const tag = `"${createHash("md5").update(octets).digest("hex")}"`;
  objects.set(name, { octets, tag });
  puts++;
  response.writeHead(200, { etag: tag, "content-length": 0 }).end();
}

function listed(prefix: string): string {
  const contents = [...objects].flatMap(([name, { tag }]) => {
    const key = name.split("/").slice(2).join("/");
    if (!key.startsWith(prefix)) return [];
    return `<Contents><Key>${key}</Key><ETag>${tag.replaceAll('"', "&quot;")}</ETag></Contents>`;
  });
  return `<ListBucketResult><IsTruncated>false</IsTruncated>${contents.join("")}</ListBucketResult>`;
}

const server = createServer((request, response) => void answer(request, response));
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on("message", () => process.send?.({ puts }));
process.on("disconnect", () => process.exit());
