import { create, toBinary } from "@bufbuild/protobuf";
import { toFrame } from "../../../src/agent/xds/grpc.ts";
import { DeltaDiscoveryResponseSchema } from "../../../src/gen/envoy/service/discovery/v3/discovery_pb.ts";

const typeUrl = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const octetsOfCluster = 4_000;
/** More than the names, types and versions of a cluster have. */
const octetsBesideValue = 300;

/** A frame with clusters, whose message has at most this many octets. */
export function pushOf(octets: number): Buffer {
  const value = Buffer.alloc(octetsOfCluster - octetsBesideValue, 7);
  const count = Math.floor(octets / octetsOfCluster) - 1;
  const resources = Array.from({ length: count }, (_, n) => ({
    name: `outbound|80||service-${n}.default.svc.cluster.local`,
    version: "2026-01-01T00:00:00Z/1",
    resource: { typeUrl, value },
  }));
  const response = create(DeltaDiscoveryResponseSchema, { typeUrl, nonce: "1", resources });
  return toFrame(toBinary(DeltaDiscoveryResponseSchema, response));
}
