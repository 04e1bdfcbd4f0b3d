import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { SecretDiscoveryService } from "../../gen/envoy/service/secret/v3/sds_pb.ts";
import type { SecretSource } from "../secrets/secret-source.ts";
import { discoveryStream } from "./discovery-stream.ts";
import { FullExchange, FullResponses } from "./full-exchange.ts";
import { IncrementalExchange } from "./incremental-exchange.ts";
import { requireSecretType } from "./secret-message.ts";

/** The dependencies of the service. */
export interface SecretDiscoveryPorts {
  readonly source: SecretSource;
  readonly clock: () => Date;
  readonly log: OperationLog;
}

/** Envoy's secret discovery service: both streaming protocols, and the unary call. */
export function createSecretDiscovery(
  ports: SecretDiscoveryPorts,
): ServiceImpl<typeof SecretDiscoveryService> {
  const { source, log } = ports;
  const responses = new FullResponses(ports);
  return {
    streamSecrets: (requests) =>
      discoveryStream(requests, new FullExchange(responses), source, log),
    deltaSecrets: (requests) =>
      discoveryStream(requests, new IncrementalExchange(source), source, log),
    async fetchSecrets(request) {
      requireSecretType(request.typeUrl);
      return await responses.create(request.resourceNames).catch((error: unknown) => {
        const sentence = `failed to generate secret: ${messageOf(error)}`;
        throw new ConnectError(sentence, Code.Unknown, undefined, undefined, error);
      });
    },
  };
}
