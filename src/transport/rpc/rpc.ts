import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import type { AnswerFields, HeaderFields } from "../../foundation/headers.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";

/** A call as a platform hands it over, before its body is read. */
export type RpcRequest = Omit<UniversalServerRequest, "body" | "header"> & {
  readonly header: HeaderFields;
  /** All of the header, for Connect. */
  readonly headers: () => Headers;
  /** Reads the whole body, once. The platform bounds its size, and its reader the time. */
  readonly body: () => Promise<Uint8Array>;
};

/** An answer, complete before it leaves. */
export interface RpcResponse {
  readonly status: number;
  readonly header: AnswerFields;
  readonly octets: Bytes;
  readonly trailer?: AnswerFields | undefined;
}

/** Answers the calls of one unary RPC. Nothing that a caller sends makes it reject. */
export type RpcService = (request: RpcRequest) => Promise<RpcResponse>;

/** The abilities of a platform's HTTP. */
export interface Platform {
  /** Whether it sends trailers, without which native gRPC cannot say how a call ended. */
  readonly hasTrailers: boolean;
}
