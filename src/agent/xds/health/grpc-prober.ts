import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { bracketed } from "../../../foundation/text/socket-address.ts";
import {
  Health,
  HealthCheckRequestSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../gen/grpc/health/v1/health_pb.ts";
import type { ProbeMethod } from "../../configuration/readiness-probe.ts";
import type { ProbeAddresses } from "./workload-health.ts";

type GrpcMethod = Extract<ProbeMethod, { kind: "grpc" }>;

/** Asks by gRPC's health service, in plaintext, as kubelets do. */
export async function probeGrpc(
  { port, service }: GrpcMethod,
  { host }: ProbeAddresses,
  signal: AbortSignal,
): Promise<string | undefined> {
  const baseUrl = `http://${bracketed(host)}:${port}`;
  const sessionManager = new Http2SessionManager(baseUrl);
  try {
    const transport = createGrpcTransport({ baseUrl, sessionManager });
    const request = create(HealthCheckRequestSchema, { service });
    const { status } = await createClient(Health, transport).check(request, { signal });
    return status === Status.SERVING ? undefined : `the status of the service is ${status}`;
  } finally {
    sessionManager.abort();
  }
}
