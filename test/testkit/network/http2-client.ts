import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";

/** Sends requests of `fetch` over one HTTP/2 connection. */
export interface Http2Client {
  readonly session: ClientHttp2Session;
  readonly send: (request: Request) => Promise<Response>;
}

/** The certificate and the roots of a TLS client. */
export interface ClientTls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly servername?: string;
  readonly rejectUnauthorized?: boolean;
}

/** @param authority `https://host:port`, or `http://` for plaintext. */
export function connectHttp2(authority: string, tls: ClientTls = {}): Http2Client {
  const session = connect(authority, tls);
  return { session, send: (request) => send(session, request) };
}

async function send(session: ClientHttp2Session, request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const stream = session.request({
    ...Object.fromEntries(request.headers),
    ":method": request.method,
    ":path": `${pathname}${search}`,
  });
  stream.on("error", () => {});
  const answered = Promise.race([once(stream, "response"), closed(stream)]);
  void write(stream, request);
  const [headers] = await answered;
  const status = Number(headers[":status"]);
  const chunks: Buffer[] = await Array.fromAsync(stream);
  const body = status === 304 ? null : Buffer.concat(chunks);
  const visible = Object.entries(headers).filter(([name]) => !name.startsWith(":"));
  return new Response(body, { status, headers: visible as [string, string][] });
}

/** A cut connection closes its streams without an error. */
async function closed(stream: ClientHttp2Stream): Promise<never> {
  await once(stream, "close");
  throw new Error("closed without an answer");
}

/** Writes the body, and stops when the server answers before its end. */
async function write(stream: ClientHttp2Stream, request: Request): Promise<void> {
  const reader = request.body?.getReader();
  for (;;) {
    const chunk = await reader?.read();
    if (!chunk || chunk.done) break;
    if (stream.destroyed || stream.writableEnded) return void reader?.cancel();
    if (!stream.write(chunk.value)) {
      await Promise.race([once(stream, "drain"), once(stream, "close")]).catch(() => {});
    }
  }
  if (!stream.destroyed) stream.end();
}
