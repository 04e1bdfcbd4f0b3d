import type { UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { EventLog } from "../../ca/audit-event.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { RpcResponse } from "../../transport/rpc/rpc.ts";

/** Who is at the other end of a connection, as far as TLS has proved it. */
export interface Peer {
  /** DER of a leaf of which the chain and the possession of the key are verified. */
  readonly clientCertificate: Bytes | undefined;
}

/** A request on its way to an RPC. */
export type StreamedRequest = Omit<UniversalServerRequest, "body"> & {
  readonly body: AsyncIterable<Uint8Array>;
};

/** An answer on its way: whole, or in pieces. */
export type StreamedResponse = UniversalServerResponse & { readonly octets?: Uint8Array };

/** What answers the calls of one RPC. */
export type Rpc = (request: StreamedRequest) => Promise<StreamedResponse>;

/** What answers the calls of a unary RPC, each answer complete before it leaves. */
export type UnaryRpc = (request: StreamedRequest) => Promise<RpcResponse>;

/** What is served: RPCs by their path, and everything else as fetch has it. */
export interface Routes {
  readonly rpcs: ReadonlyMap<string, Rpc>;
  /** Beside those that callers have, what the monitoring port answers. */
  readonly monitoringRpcs?: readonly (readonly [string, Rpc])[];
  readonly fetch: (request: Request, peer: Peer) => Promise<Response>;
  readonly log: EventLog;
}
