import type {
  DescMessage,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import {
  type ContextValues,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type MethodImpl,
} from "@connectrpc/connect";
import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import { CallTimeout, type HeaderFields } from "../../foundation/headers.ts";
import { concatBytes } from "../../foundation/octets.ts";
import {
  compressedFlag,
  firstMessageIn,
  parseFrames,
  requireStrictFrames,
  trailersFlag,
} from "./grpc-frames.ts";
import { requireFewValues } from "./internal/message.ts";
import { RequestBody } from "./request-body.ts";
import { type HttpAbilities, Peer, type RpcRequest, type RpcResponse } from "./rpc.ts";

/** Answers a message that Connect has parsed. */
type Answer<I extends DescMessage, O extends DescMessage> = (
  message: MessageShape<I>,
  context: HandlerContext,
) => Promise<MessageInitShape<O>>;

const signalKey = createContextKey<AbortSignal | undefined>(undefined);

/**
 * The path on which Connect answers: every protocol that the platform carries, in every form.
 *
 * @param admit Runs before a byte of the message is read.
 * @returns The service. It adds the peer to the values that `answer` and `admit` find in their context.
 */
export function createFallback<I extends DescMessage, O extends DescMessage>(
  { hasTrailers }: HttpAbilities,
  method: DescMethodUnary<I, O>,
  answer: Answer<I, O>,
  admit: (context: HandlerContext) => Promise<void>,
): (request: RpcRequest, contextValues?: ContextValues) => Promise<RpcResponse> {
  const router = createConnectRouter({
    grpc: hasTrailers,
    grpcWeb: true,
    connect: true,
    readMaxBytes: RequestBody.maximumOctets,
    writeMaxBytes: 4 * RequestBody.maximumOctets,
    requestGate: async (context) => {
      context.values.set(signalKey, context.signal);
      await admit(context);
    },
  });
  const [handler] = router.rpc(method, answer as MethodImpl<typeof method>).handlers;
  if (!handler) throw new Error("the router has no handler");
  return async (request, contextValues = createContextValues()) => {
    contextValues.set(Peer.key, request.peer);
    // Connect makes the signal of a call before it reads the body.
    const read = () =>
      RequestBody.inTime(request.body(), contextValues.get(signalKey) ?? request.signal);
    const body = readLater(read, method.input, request.header);
    const header = CallTimeout.cap(request.headers());
    return complete(await handler({ ...request, header, body, contextValues }));
  };
}

/**
 * Reads a body when Connect asks for it. Refuses frames that Connect would ignore, and messages that would take much
 * memory once Connect has parsed them.
 */
export async function* readLater(
  read: () => Promise<Uint8Array>,
  schema: DescMessage,
  header: HeaderFields,
): AsyncGenerator<Uint8Array> {
  const octets = await read();
  const knownFlags = knownFlagsOf(header);
  const isJson = /json/i.test(header.get("content-type") ?? "");
  if (knownFlags !== undefined) requireStrictFrames(octets, knownFlags);
  const message = knownFlags === undefined ? octets : firstMessageIn(octets);
  try {
    // Connect parses the first message before it reads what comes after it.
    if (message) requireFewValues(schema, message, isJson);
  } catch (error) {
    // As on the fast path, the error for a frame beyond the limit comes before any other.
    if (knownFlags !== undefined) parseFrames(octets);
    throw error;
  }
  yield octets;
}

/** The flags that a call's protocol defines for a frame; `undefined` if the protocol has no frames. */
function knownFlagsOf(header: HeaderFields): number | undefined {
  const type = header.get("content-type") ?? "";
  if (/^application\/grpc-web/i.test(type)) return compressedFlag | trailersFlag;
  return /^application\/grpc/i.test(type) ? compressedFlag : undefined;
}

/** Reads an answer to its end: its outcome must be certain before it leaves. */
async function complete(answer: UniversalServerResponse): Promise<RpcResponse> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body ?? []) chunks.push(chunk);
  const header = Object.fromEntries(answer.header ?? []);
  const trailer = answer.trailer && Object.fromEntries(answer.trailer);
  return { status: answer.status, header, octets: concatBytes(...chunks), trailer };
}
