import { create, toBinary } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code } from "@connectrpc/connect";
import {
  DeltaDiscoveryRequestSchema,
  DeltaDiscoveryResponseSchema,
  DiscoveryRequestSchema,
} from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";
import { StatusSchema } from "../../gen/google/rpc/status_pb.ts";

/** The fields that the proxy reads of a discovery request. */
export interface RequestPeek {
  readonly typeUrl: string;
  /** Why Envoy rejects a response; `undefined` if the request is no rejection. */
  readonly rejection: string | undefined;
}

/** One of the two protocols of the aggregated discovery service. */
export interface DiscoveryProtocol {
  readonly name: "incremental" | "state-of-the-world";
  readonly path: string;
  /** Reads a request that the proxy passes on as it is. Octets that are no protobuf have an empty type. */
  readonly peek: (request: Uint8Array) => RequestPeek;
  /** Serializes a request with a type alone, or with a fault as its `error_detail`. */
  readonly bareRequest: (typeUrl: string, fault?: string) => Uint8Array;
}

const service = "/envoy.service.discovery.v3.AggregatedDiscoveryService";

function protocolOf(
  name: DiscoveryProtocol["name"],
  method: string,
  schema: typeof DiscoveryRequestSchema | typeof DeltaDiscoveryRequestSchema,
): DiscoveryProtocol {
  return {
    name,
    path: `${service}/${method}`,
    peek: (request) => peekAt(request, schema.field),
    bareRequest: (typeUrl, fault) => toBinary(schema, create(schema, bare(typeUrl, fault))),
  };
}

/** Both variants of xDS, by the path of their RPC. */
export const discoveryProtocols: ReadonlyMap<string, DiscoveryProtocol> = new Map(
  [
    protocolOf("incremental", "DeltaAggregatedResources", DeltaDiscoveryRequestSchema),
    protocolOf("state-of-the-world", "StreamAggregatedResources", DiscoveryRequestSchema),
  ].map((protocol) => [protocol.path, protocol]),
);

const bare = (typeUrl: string, fault: string | undefined) => ({
  typeUrl,
  ...(fault !== undefined && { errorDetail: { code: Code.Internal, message: fault } }),
});

/** The type of a response's resources, in either protocol; empty for octets that are no protobuf. */
export function typeOfResponse(response: Uint8Array): string {
  // Both protocols have the same number for this field.
  const { typeUrl } = DeltaDiscoveryResponseSchema.field;
  return text(fieldsOf(response, typeUrl.number).get(typeUrl.number));
}

/**
 * Whether Envoy gets resources of this type: all of its own (`envoy.*`), and Istio's `Workload`. All others are dropped;
 * istiod means them for an agent.
 */
export function isForEnvoy(typeUrl: string): boolean {
  return /^type\.googleapis\.com\/(?:envoy\.|istio\.workload\.Workload$)/.test(typeUrl);
}

function peekAt(
  request: Uint8Array,
  { typeUrl, errorDetail }: Pick<typeof DiscoveryRequestSchema.field, "typeUrl" | "errorDetail">,
): RequestPeek {
  const { message } = StatusSchema.field;
  const fields = fieldsOf(request, typeUrl.number, errorDetail.number);
  const status = fields.get(errorDetail.number);
  return {
    typeUrl: text(fields.get(typeUrl.number)),
    rejection: status && text(fieldsOf(status, message.number).get(message.number)),
  };
}

/**
 * The last length-delimited field of each wanted number. It decodes no field: a response may have tens of MiB of
 * resources, for whose types this project has no schema. It keeps no other field, because a peer may send millions.
 */
function fieldsOf(
  message: Uint8Array,
  ...wanted: readonly number[]
): ReadonlyMap<number, Uint8Array> {
  const fields = new Map<number, Uint8Array>();
  const reader = new BinaryReader(message);
  try {
    while (reader.pos < reader.len) {
      const [number, type] = reader.tag();
      const isWanted = type === WireType.LengthDelimited && wanted.includes(number);
      if (isWanted) fields.set(number, reader.bytes());
      else reader.skip(type, number);
    }
  } catch {
    // Malformed protobuf is passed on as it is, for the peer to reject.
    return new Map();
  }
  return fields;
}

const utf8 = new TextDecoder();

/** The longest type URL, and how much of a rejection is kept. */
const maximumTextOctets = 1_024;

const text = (octets: Uint8Array | undefined): string =>
  utf8.decode(octets?.subarray(0, maximumTextOctets));
