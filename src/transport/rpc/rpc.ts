import { type ContextKey, createContextKey } from "@connectrpc/connect";
import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import type { AnswerFields, HeaderFields } from "../../foundation/headers.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";

/** A call as a platform hands it over, before its body is read. */
export type RpcRequest = Omit<UniversalServerRequest, "body" | "header" | "contextValues"> & {
  readonly peer: Peer;
  readonly header: HeaderFields;
  /** All of the header, for Connect. */
  readonly headers: () => Headers;
  /** Reads the body, at most once. The platform bounds its size, and the caller must bound the time. */
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
export interface HttpAbilities {
  /** Whether it sends trailers, without which native gRPC cannot say how a call ended. */
  readonly hasTrailers: boolean;
}

/** The peer of a call, as the platform knows it and not as the peer says. */
export interface Peer {
  /** A leaf, DER. The platform has verified its chain, and that the peer holds its key. */
  readonly clientCertificate?: Bytes | undefined;
  /** The IP address from which the call came. */
  readonly address?: string | undefined;
  /**
   * Called when a long poll begins to wait for a change, so that a platform with a limit for work under way can begin
   * other work.
   */
  readonly yieldTurn?: (() => void) | undefined;
  /** Whether the platform can spare the connection and memory of a caller that only waits. */
  readonly mayWait?: (() => boolean) | undefined;
}

/** The peer of a request, as the platform knows it. */
export type PeerOf = (request: Request) => Peer;

/** Where a request says who its peer is. */
export const Peer = {
  /** The key under which Connect's methods find the peer of a call. */
  key: createContextKey<Peer>({}) satisfies ContextKey<Peer>,

  /** The header with a gateway's own credential, by which `serve` knows that it forwards for others. */
  gatewayHeader: "x-rampart-gateway" as const,

  /** The header in which a gateway forwards the address of its client. */
  forwardedHeader: "x-rampart-peer" as const,
};
