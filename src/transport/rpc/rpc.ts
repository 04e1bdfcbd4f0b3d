import type { UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { Bytes } from "../../pki/encoding/bytes.ts";

/** A call as a platform hands it over, its body not read yet. */
export type RpcRequest = Omit<UniversalServerRequest, "body"> & {
  /**
   * Reads the body as one chunk, or as none. The platform bounds its size and time with the readers of
   * `request-body.ts`.
   *
   * @param signal Aborted when nobody waits for the answer any more.
   */
  readonly body: (signal: AbortSignal) => AsyncIterable<Uint8Array>;
};

/** An answer, complete before it leaves. */
export type RpcResponse = Omit<UniversalServerResponse, "body"> & { readonly octets: Bytes };

/** Answers the calls of one unary RPC. Never rejects for what a caller does. */
export type RpcService = (request: RpcRequest) => Promise<RpcResponse>;

/** What the HTTP of a platform can do. */
export interface Platform {
  /** Whether it sends trailers, without which native gRPC cannot say how a call ended. */
  readonly hasTrailers: boolean;
}
