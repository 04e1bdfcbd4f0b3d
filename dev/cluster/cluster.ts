import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { Readable } from "node:stream";
import type { Hono } from "hono";
import { clusterApi } from "./cluster-api.ts";
import type { TokenClaims } from "./service-account-token.ts";
import { mintToken } from "./service-account-token.ts";
import { loadSigningKey } from "./signing-key.ts";

/** The part of a cluster that a CA sees: an OIDC issuer, and the ServiceAccount tokens that it signs. */
export interface DevelopmentCluster {
  /** The `iss` of its tokens and the base of its URLs, without a slash at the end. */
  readonly issuer: string;
  mintToken(claims: TokenClaims): Promise<string>;
  close(): Promise<void>;
}

/**
 * Starts the development cluster on the loopback interface.
 *
 * @param port 0 for any free one.
 * @param folder Holds the signing key, so that a restart signs with the same one.
 */
export async function startDevelopmentCluster({
  port,
  folder,
}: {
  port: number;
  folder: string;
}): Promise<DevelopmentCluster> {
  const key = await loadSigningKey(folder);
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${boundPort(server)}`;
  const mint = (claims: TokenClaims) => mintToken(claims, { issuer, key }, new Date());
  const api = clusterApi({ issuer, publicJwk: key.publicJwk, mint });
  server.on("request", (incoming, outgoing) => void answer(incoming, outgoing, api, issuer));
  return { issuer, mintToken: mint, close: () => close(server) };
}

function boundPort(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not a TCP server");
  return address.port;
}

async function close(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  await once(server, "close");
}

async function answer(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  api: Hono,
  issuer: string,
): Promise<void> {
  const response = namesThisHost(incoming, issuer)
    ? await responseOf(api, incoming, issuer)
    : new Response(`ask for ${issuer}\n`, { status: 421 });
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.end(Buffer.from(await response.arrayBuffer()));
}

/** A Web page could point its own host name at 127.0.0.1 and read a token (DNS rebinding). */
function namesThisHost({ headers }: IncomingMessage, issuer: string): boolean {
  const { port } = new URL(issuer);
  return headers.host === `127.0.0.1:${port}` || headers.host === `localhost:${port}`;
}

async function responseOf(api: Hono, incoming: IncomingMessage, issuer: string): Promise<Response> {
  let request: Request;
  try {
    request = toRequest(incoming, issuer);
  } catch {
    return new Response("this is not a request that the Fetch standard can express\n", {
      status: 400,
    });
  }
  return await api.fetch(request);
}

function toRequest(incoming: IncomingMessage, issuer: string): Request {
  const method = incoming.method ?? "GET";
  const hasBody = method !== "GET" && method !== "HEAD";
  return new Request(new URL(incoming.url ?? "/", issuer), {
    method,
    headers: new Headers(Object.entries(incoming.headers).map(([k, v]) => [k, String(v)])),
    ...(hasBody && { body: Readable.toWeb(incoming) as ReadableStream, duplex: "half" as const }),
  });
}
