import type { UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { Bytes } from "../../pki/encoding/bytes.ts";

/** The signal of a call, which begins before its body is read. */
export type SignalOf = () => AbortSignal | undefined;

/** A call as any platform hands it over, its body not read yet. */
export type RpcRequest = Omit<UniversalServerRequest, "body"> & {
  /** Bounded in size and time by the platform, with the means of `request-body.ts`. */
  readonly body: (signalOf: SignalOf) => AsyncIterable<Uint8Array>;
};

/** An answer, complete before it leaves. */
export type RpcResponse = Omit<UniversalServerResponse, "body"> & { readonly octets: Bytes };
