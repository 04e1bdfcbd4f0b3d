import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  DeltaDiscoveryRequestSchema,
  DeltaDiscoveryResponseSchema,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from "../../../src/gen/envoy/service/discovery/v3/discovery_pb.ts";

/** Type URLs that Istio's proxies use. */
export const types = {
  listener: "type.googleapis.com/envoy.config.listener.v3.Listener",
  cluster: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
  health: "type.googleapis.com/istio.v1.HealthInformation",
  nameTable: "type.googleapis.com/istio.networking.nds.v1.NameTable",
  workload: "type.googleapis.com/istio.workload.Workload",
} as const;

export const encode = {
  incrementalRequest: (init: MessageInitShape<typeof DeltaDiscoveryRequestSchema>): Uint8Array =>
    toBinary(DeltaDiscoveryRequestSchema, create(DeltaDiscoveryRequestSchema, init)),
  incrementalResponse: (init: MessageInitShape<typeof DeltaDiscoveryResponseSchema>): Uint8Array =>
    toBinary(DeltaDiscoveryResponseSchema, create(DeltaDiscoveryResponseSchema, init)),
  fullRequest: (init: MessageInitShape<typeof DiscoveryRequestSchema>): Uint8Array =>
    toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, init)),
  fullResponse: (init: MessageInitShape<typeof DiscoveryResponseSchema>): Uint8Array =>
    toBinary(DiscoveryResponseSchema, create(DiscoveryResponseSchema, init)),
};

/** An incremental response with one resource of this type and size. */
export function response(typeUrl: string, octets: number = 10, nonce: string = "1"): Uint8Array {
  const resource = { typeUrl, value: new Uint8Array(octets).fill(7) };
  return encode.incrementalResponse({
    typeUrl,
    nonce,
    resources: [{ name: "r", version: "v1", resource }],
  });
}

/** An incremental request for this type. */
export function request(typeUrl: string): Uint8Array {
  return encode.incrementalRequest({ typeUrl, node: { id: "sidecar~1.1.1.1~a.b~b.svc" } });
}
