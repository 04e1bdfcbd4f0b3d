import { create, toBinary } from "@bufbuild/protobuf";
import {
  DeltaDiscoveryRequestSchema,
  DiscoveryRequestSchema,
} from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";
import { fieldOf, fieldsOf, textOf } from "./protobuf-fields.ts";

/** The protocols of the aggregated discovery service. */
export type ProtocolName = "incremental" | "state-of-the-world";

/** A rejection in a request: Envoy's NACK, or the report of an unhealthy workload. */
export interface ErrorDetail {
  readonly code: number;
  readonly message: string;
}

/** The fields of a request that the proxy reads. */
export interface RequestPeek {
  readonly typeUrl: string;
  readonly error: ErrorDetail | undefined;
}

/** One of the two protocols, with the numbers of the fields that the proxy looks at. */
export interface DiscoveryProtocol {
  readonly name: ProtocolName;
  readonly path: string;
  /** The type URL of the first whole or partial resource of a response. */
  readonly resourceType: (resource: Uint8Array) => string | undefined;
  readonly peek: (request: Uint8Array) => RequestPeek;
  /** A request with a type and a fault only. */
  readonly bareRequest: (typeUrl: string, errorDetail?: ErrorDetail) => Uint8Array;
}

/** In both kinds of response. */
export const responseFields = { resources: 2, typeUrl: 4 } as const;

const service = "/envoy.service.discovery.v3.AggregatedDiscoveryService";

const stateOfTheWorld: DiscoveryProtocol = {
  name: "state-of-the-world",
  path: `${service}/StreamAggregatedResources`,
  resourceType: anyType,
  peek: peekAt({ typeUrl: 4, errorDetail: 6 }),
  bareRequest: (typeUrl, errorDetail) =>
    toBinary(
      DiscoveryRequestSchema,
      create(DiscoveryRequestSchema, { typeUrl, ...(errorDetail && { errorDetail }) }),
    ),
};

const incremental: DiscoveryProtocol = {
  name: "incremental",
  path: `${service}/DeltaAggregatedResources`,
  resourceType: (resource) => {
    const any = fieldOf(resource, 2);
    return any && anyType(any.octets);
  },
  peek: peekAt({ typeUrl: 2, errorDetail: 7 }),
  bareRequest: (typeUrl, errorDetail) =>
    toBinary(
      DeltaDiscoveryRequestSchema,
      create(DeltaDiscoveryRequestSchema, { typeUrl, ...(errorDetail && { errorDetail }) }),
    ),
};

/** The protocols by the path of their call. */
export const discoveryProtocols: ReadonlyMap<string, DiscoveryProtocol> = new Map(
  [incremental, stateOfTheWorld].map((protocol) => [protocol.path, protocol]),
);

function anyType(any: Uint8Array): string | undefined {
  const type = fieldOf(any, 1);
  return type && !type.isCutOff ? textOf(type.octets) : undefined;
}

function peekAt(numbers: { typeUrl: number; errorDetail: number }): DiscoveryProtocol["peek"] {
  return (request) => {
    let typeUrl = "";
    let error: ErrorDetail | undefined;
    for (const { number, octets } of fieldsOf(request)) {
      if (number === numbers.typeUrl) typeUrl = textOf(octets);
      if (number === numbers.errorDetail) error = errorOf(octets);
    }
    return { typeUrl, error };
  };
}

/** `google.rpc.Status`, without its code: only its text is of use here. */
function errorOf(status: Uint8Array): ErrorDetail {
  const message = fieldOf(status, 2);
  return { code: 0, message: message ? textOf(message.octets) : "" };
}
