import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import {
  type IstioCertificateRequest,
  type IstioCertificateResponseSchema,
  IstioCertificateService,
} from "../../gen/istio/v1/auth/ca_pb.ts";
import { concatBytes } from "../../pki/encoding/bytes.ts";
import { maximumBodyOctets } from "./request-body.ts";
import type { Platform, RpcResponse, RpcService } from "./rpc.ts";
import { capTimeouts } from "./timeout-header.ts";

/** `CreateCertificate` as Connect calls it. */
export interface FallbackMethod {
  /** Runs before a byte of the message is read. */
  readonly admit?: (context: HandlerContext) => Promise<void>;
  readonly createCertificate: (
    request: IstioCertificateRequest,
    context: HandlerContext,
  ) => Promise<MessageInitShape<typeof IstioCertificateResponseSchema>>;
}

const signalKey = createContextKey<AbortSignal | undefined>(undefined);

/** Has Connect answer calls in every protocol and form that it knows. */
export function createFallback(method: FallbackMethod, platform: Platform): RpcService {
  const handler = createHandler(method, platform);
  return async (request) => {
    const contextValues = request.contextValues ?? createContextValues();
    // Connect makes the signal of a call first, and reads the body later.
    const body = readLater(() => request.body(contextValues.get(signalKey) ?? request.signal));
    const header = capTimeouts(request.header);
    return complete(await handler({ ...request, header, body, contextValues }));
  };
}

function createHandler(
  { admit, createCertificate }: FallbackMethod,
  { hasTrailers }: Platform,
): UniversalHandler {
  const router = createConnectRouter({
    grpc: hasTrailers,
    grpcWeb: true,
    connect: true,
    readMaxBytes: maximumBodyOctets,
    writeMaxBytes: 4 * maximumBodyOctets,
    requestGate: async (context) => {
      context.values.set(signalKey, context.signal);
      await admit?.(context);
    },
  });
  router.service(IstioCertificateService, { createCertificate });
  const [handler] = router.handlers;
  if (!handler) throw new Error("the router has no handler of CreateCertificate");
  return handler;
}

async function* readLater(body: () => AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* body();
}

/** Reads an answer to its end, so that its outcome is certain before it leaves. */
async function complete({ body, ...response }: UniversalServerResponse): Promise<RpcResponse> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk);
  return { ...response, octets: concatBytes(...chunks) };
}
