import type { Readable } from "node:stream";
import type { UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import type { Peer } from "../../transport/peer.ts";
import type { RpcResponse } from "../../transport/rpc/rpc.ts";

/** A request to an RPC, whose body nobody has read. */
export type StreamedRequest = Omit<UniversalServerRequest, "body"> & { readonly body: Readable };

/** An answer: whole, or in chunks. */
export type StreamedResponse = UniversalServerResponse & { readonly octets?: Uint8Array };

/** Answers the calls of one RPC. */
export type Rpc = (request: StreamedRequest) => Promise<StreamedResponse>;

/** Answers the calls of a unary RPC. Each answer is complete before it leaves. */
export type UnaryRpc = (request: StreamedRequest) => Promise<RpcResponse>;

/** The routes of a server: RPCs by path, and a fetch handler for every other request. */
export interface Routes {
  readonly rpcs: ReadonlyMap<string, Rpc>;
  /** The RPCs of the monitoring port besides those for callers. */
  readonly monitoringRpcs?: readonly (readonly [string, Rpc])[];
  readonly fetch: (request: Request, peer: Peer) => Promise<Response>;
  readonly log: EventLog;
}
