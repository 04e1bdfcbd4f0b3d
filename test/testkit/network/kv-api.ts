import type { IncomingMessage, ServerResponse } from "node:http";
import { startLoopbackServer } from "./loopback-server.ts";

/** The part of Cloudflare's REST API that `wrangler kv` uses, for one account with one namespace. */
interface KvApi {
  /** The variables with which wrangler finds it. */
  readonly environment: Readonly<Record<string, string>>;
  /** The written values, by key. */
  readonly written: ReadonlyMap<string, string>;
  /** Method and path of every request, in order. */
  readonly requests: readonly string[];
  /** Shows the writes to readers. KV is eventually consistent: until then readers see the old values. */
  readonly propagate: () => void;
}

/** An answer to every request, in place of the API's. */
export interface Fault {
  readonly status: number;
  readonly body: string;
}

const token = "token-of-the-operator";

export async function startKvApi(fault?: Fault): Promise<KvApi> {
  const written = new Map<string, string>();
  const requests: string[] = [];
  let seen = new Map<string, string>();
  const { origin } = await startLoopbackServer(async (request, response) => {
    requests.push(`${request.method} ${request.url?.replace(/^.*\/namespaces\/[0-9a-f]{32}/, "")}`);
    const body = await textOf(request);
    if (fault) return void response.writeHead(fault.status).end(fault.body);
    if (request.headers.authorization !== `Bearer ${token}`) return answer(response, 403, null);
    answer(response, 200, respond(request, body, written, seen));
  });
  return {
    environment: {
      CLOUDFLARE_API_BASE_URL: origin,
      CLOUDFLARE_API_TOKEN: token,
      CLOUDFLARE_ACCOUNT_ID: "account",
    },
    written,
    requests,
    propagate: () => {
      seen = new Map(written);
    },
  };
}

function respond(
  { method, url = "" }: IncomingMessage,
  body: string,
  written: Map<string, string>,
  seen: ReadonlyMap<string, string>,
): unknown {
  const { pathname } = new URL(url, "http://localhost");
  if (pathname.endsWith("/keys")) return [...seen.keys()].map((name) => ({ name }));
  if (pathname.endsWith("/bulk/get")) {
    const { keys } = JSON.parse(body) as { keys: string[] };
    return { values: Object.fromEntries(keys.map((key) => [key, seen.get(key) ?? null])) };
  }
  const key = decodeURIComponent(pathname.split("/").at(-1) ?? "");
  if (method === "PUT") written.set(key, body);
  else written.delete(key);
  return {};
}

function answer(response: ServerResponse, status: number, result: unknown): void {
  const errors = status < 400 ? [] : [{ code: 10000, message: "Authentication error" }];
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ success: status < 400, errors, messages: [], result }));
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}
