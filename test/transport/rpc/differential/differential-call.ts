import type { Authenticator, Caller } from "../../../../src/authn/caller.ts";
import { type CertificateCall, connectBinary, grpcFrame } from "../../../contract/rpc-calls.ts";

/** The material of a call, and a way to end it early. */
export interface Sample {
  readonly csrPem: string;
  /** The caller, as the CA authenticates it. */
  readonly known: Caller;
  /** The caller hangs up. */
  readonly hangUp: () => void;
}

type Chunks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** A call that both paths answer. A workload's usual value takes the place of each member left out. */
export interface DifferentialCall {
  readonly name: string;
  readonly protocol: "Connect" | "gRPC";
  /** The fast path does not take it: Connect answers it in either service. */
  readonly isFast?: false;
  readonly method?: string;
  readonly query?: string;
  /** `null` for none. */
  readonly contentType?: string | null;
  /** Added to the others, so a name may come twice. `authorization` replaces the credential. */
  readonly headers?: readonly (readonly [string, string])[];
  /** The body as it is on the wire. */
  readonly body?: (sample: Sample) => Chunks;
  /** Replaces the CA's own. */
  readonly authenticate?: (sample: Sample) => Authenticator;
  readonly hasHungUp?: boolean;
}

/** The message of a call, in protobuf. */
export function messageOf({ csrPem }: Sample, change: CertificateCall = {}): Uint8Array {
  return connectBinary.encode({ csr: csrPem, ...change });
}

/** A message as a protocol puts it on the wire. */
export const wire = {
  Connect: (message: Uint8Array): Uint8Array => message,
  gRPC: (message: Uint8Array): Uint8Array => grpcFrame(message),
} as const;

export const contentTypes = {
  Connect: "application/proto",
  gRPC: "application/grpc",
} as const;

/** The same call over both protocols. */
export function overBoth(
  callOf: (protocol: DifferentialCall["protocol"]) => Omit<DifferentialCall, "protocol">,
): DifferentialCall[] {
  return (["Connect", "gRPC"] as const).map((protocol) => ({ protocol, ...callOf(protocol) }));
}

/** Joins parts of a body. */
export function join(...parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(parts.flatMap((part) => [...part]));
}

export const never: Promise<never> = new Promise<never>(() => {});
