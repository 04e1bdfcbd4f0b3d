import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";
import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { FetchError, toFetchError } from "../../../foundation/fetch.ts";
import { jsonIn, Members } from "../../../foundation/json.ts";
import { concatBytes } from "../../../foundation/octets.ts";
import type { ClientTls } from "../../../program/http/tunnel.ts";
import { connectSession } from "../../../program/http/tunnel.ts";
import {
  firstMessageIn,
  frameHeadOctets,
  toFrame,
  trailersFlag,
} from "../../../transport/rpc/grpc-frames.ts";

/** The protocols of an RPC. */
export type Protocol = "connect" | "grpc-web" | "grpc";

/** What a CA, or something in front of it, answered to an RPC. */
export interface CallAnswer {
  /** The code of gRPC, or `ok`. `undefined` for an answer that no CA gives over this protocol. */
  readonly code: string | undefined;
  /** The sentence of a refusal, or what came in place of an answer. */
  readonly said: string;
  readonly message: Uint8Array;
  /** The wait that the CA asks for, as it says it. */
  readonly retryAfter: string | undefined;
}

/** A refusal in words. */
export const saidBy = ({ code, said }: CallAnswer): string =>
  code ? `the CA answered ${code}: ${said}` : said;

/** The message of an answer. @throws FetchError for a refusal, and for an answer that holds another message. */
export function messageIn<Schema extends DescMessage>(
  schema: Schema,
  answer: CallAnswer,
): MessageShape<Schema> {
  if (answer.code !== "ok") throw new FetchError(saidBy(answer));
  try {
    return fromBinary(schema, answer.message);
  } catch (cause) {
    throw new FetchError("answered something else than the message of this call", { cause });
  }
}

/** An answer over HTTP, read whole. */
interface HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly octets: Uint8Array;
}

const none = new Uint8Array();
const typeOf = ({ headers }: HttpAnswer): string =>
  headers.get("content-type") ?? "no content type";

/** How each protocol over `fetch` writes a request and reads its answer. */
export const overFetch = {
  connect: {
    contentType: "application/proto",
    write: (message: Uint8Array): Uint8Array => message,
    read(answer: HttpAnswer): CallAnswer {
      const { status, headers, octets } = answer;
      const retryAfter = headers.get("retry-after") ?? undefined;
      if (status === 200 && typeOf(answer) === "application/proto")
        return { code: "ok", said: "", message: octets, retryAfter };
      const { code, message } = Members.of(jsonIn(octets));
      return typeof code === "string" && typeOf(answer).startsWith("application/json")
        ? { code, said: String(message), message: none, retryAfter }
        : strange(answer);
    },
  },
  "grpc-web": {
    contentType: "application/grpc-web+proto",
    write: toFrame,
    read(answer: HttpAnswer): CallAnswer {
      if (!typeOf(answer).startsWith("application/grpc-web")) return strange(answer);
      try {
        const trailers = trailersIn(answer.octets) ?? answer.headers;
        return grpcAnswer((name) => trailers.get(name), firstMessageIn(answer.octets));
      } catch (error) {
        throw new FetchError("answered trailers that cannot be read", { cause: error });
      }
    },
  },
};

/** What came in place of the answer of a CA. */
export const noAnswer = (said: string, retryAfter?: string): CallAnswer => ({
  code: undefined,
  said,
  message: none,
  retryAfter,
});

const strange = (answer: HttpAnswer): CallAnswer =>
  noAnswer(
    `something in front of the CA answered: status ${answer.status}, ${typeOf(answer)}`,
    answer.headers.get("retry-after") ?? undefined,
  );

/** The trailers of gRPC-Web, in the last frame of the body; `undefined` where there is none. */
function trailersIn(body: Uint8Array): Headers | undefined {
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  for (let at = 0; at + frameHeadOctets <= body.length; ) {
    const end = at + frameHeadOctets + view.getUint32(at + 1);
    if (view.getUint8(at) & trailersFlag) {
      const text = new TextDecoder().decode(body.subarray(at + frameHeadOctets, end));
      const lines = text.split("\r\n").map((line) => line.split(/: ?(.*)/s, 2));
      return new Headers(lines.filter(([name]) => name).map(([n = "", v = ""]) => [n, v]));
    }
    at = end;
  }
  return undefined;
}

/** The codes of gRPC by their number, in Connect's spelling. */
const codes = [
  ...["ok", "canceled", "unknown", "invalid_argument", "deadline_exceeded", "not_found"],
  ...["already_exists", "permission_denied", "resource_exhausted", "failed_precondition"],
  ...["aborted", "out_of_range", "unimplemented", "internal", "unavailable", "data_loss"],
  "unauthenticated",
];

function grpcAnswer(
  trailer: (name: string) => string | null,
  message: Uint8Array | undefined,
): CallAnswer {
  const status = trailer("grpc-status");
  const code = status === null ? undefined : codes[Number(status)];
  const said = code
    ? decodeURIComponent(trailer("grpc-message") ?? "")
    : "the answer has no trailers with a grpc-status: something on the way drops them";
  return { code, said, message: message ?? none, retryAfter: trailer("retry-after") ?? undefined };
}

const maximumOctets = 256 * 1024;

/**
 * Calls an RPC over native gRPC, on a connection of its own that it closes.
 * @throws FetchError where no server of HTTP/2 answers.
 */
export async function callNative(
  url: string,
  { path, headers, message }: NativeCall,
  tls: ClientTls,
  signal: AbortSignal,
): Promise<CallAnswer> {
  let session: ClientHttp2Session | undefined;
  const abort = (): void => session?.destroy(signal.reason as Error);
  signal.addEventListener("abort", abort);
  try {
    const { origin } = new URL(url);
    const socket = await connectSession(origin, tls);
    session = connect(origin, { createConnection: () => socket });
    const failed = once(session, "error").then(([error]) => Promise.reject(error));
    if (signal.aborted) abort();
    return await Promise.race([answerOn(session, { path, headers, message }), failed]);
  } catch (error) {
    throw toFetchError(error, "did not answer native gRPC");
  } finally {
    signal.removeEventListener("abort", abort);
    session?.destroy();
  }
}

interface NativeCall {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly message: Uint8Array;
}

async function answerOn(
  session: ClientHttp2Session,
  { path, headers, message }: NativeCall,
): Promise<CallAnswer> {
  const fixed = {
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
  };
  const stream = session.request({ ...fixed, ...headers });
  const fields: Record<string, unknown> = {};
  stream.on("response", (head) => Object.assign(fields, head));
  stream.on("trailers", (trailers) => Object.assign(fields, trailers));
  stream.end(toFrame(message));
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maximumOctets) break;
    chunks.push(chunk);
  }
  const type = `${fields["content-type"]}`;
  if (!type.startsWith("application/grpc")) {
    const status = Number(fields[":status"] ?? 0);
    return strange({ status, headers: new Headers({ "content-type": type }), octets: none });
  }
  const trailer = (name: string) => (fields[name] === undefined ? null : `${fields[name]}`);
  return grpcAnswer(trailer, firstMessageIn(concatBytes(...chunks)));
}
