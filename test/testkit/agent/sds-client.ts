import { connect } from "node:net";
import { PassThrough } from "node:stream";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import {
  type Client,
  Code,
  type ConnectError,
  type ConnectRouter,
  createClient,
} from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { onTestFinished } from "vitest";
import { serveOnSocket } from "../../../src/agent/sockets/unix-socket.ts";
import type { OperationLog } from "../../../src/foundation/events.ts";
import {
  type Secret,
  SecretSchema,
} from "../../../src/gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.ts";
import type {
  DiscoveryRequest,
  DiscoveryResponse,
} from "../../../src/gen/envoy/service/discovery/v3/discovery_pb.ts";
import { SecretDiscoveryService } from "../../../src/gen/envoy/service/secret/v3/sds_pb.ts";
import { SpiffeWorkloadAPI } from "../../../src/gen/spiffe/workload_pb.ts";
import { createEventRecorder } from "../log/event-recorder.ts";
import { temporaryFolder } from "../temporary-folder.ts";

type MessageInit = Partial<Omit<DiscoveryRequest, "$typeName" | "node" | "errorDetail">> & {
  readonly node?: { id: string };
  readonly errorDetail?: { message: string };
};

const transportTo = (path: string) =>
  createGrpcTransport({
    baseUrl: "http://agent",
    nodeOptions: { createConnection: () => connect(path) },
  });

/** A client of SDS over a Unix socket. */
export const sdsClient = (path: string): Client<typeof SecretDiscoveryService> =>
  createClient(SecretDiscoveryService, transportTo(path));

/** A client of the Workload API over a Unix socket. */
export const workloadApiClient = (path: string): Client<typeof SpiffeWorkloadAPI> =>
  createClient(SpiffeWorkloadAPI, transportTo(path));

/** Serves RPCs on a Unix socket until the end of the test. @returns Its path. */
export async function serveRpcs(
  routes: (router: ConnectRouter) => unknown,
  log: OperationLog = createEventRecorder(),
): Promise<string> {
  const path = `${await temporaryFolder()}/socket`;
  const server = await serveOnSocket({ path, mode: 0o600, routes: (to) => void routes(to), log });
  onTestFinished(() => server.close());
  return path;
}

/** The code and the sentence of a call that is refused, and `no error` for another one. */
export const refusalOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "no error",
    (error: ConnectError) => `${Code[error.code]}: ${error.rawMessage}`,
  );

/** The header without which the Workload API refuses every call. */
export const security = { headers: { "workload.spiffe.io": "true" } };

/** A state-of-the-world stream. Envoy opens one for each of its secrets. */
export class SdsStream {
  readonly #outbox = new PassThrough({ objectMode: true });
  readonly #responses: AsyncIterator<DiscoveryResponse>;
  #last: DiscoveryResponse | undefined;

  constructor(path: string) {
    this.#responses = sdsClient(path).streamSecrets(this.#outbox)[Symbol.asyncIterator]();
  }

  send(request: MessageInit): void {
    this.#outbox.write(request);
  }

  /** Sends the first request of a stream. */
  subscribe(...resourceNames: string[]): void {
    this.send({ node: { id: "test" }, resourceNames });
  }

  /** Acknowledges the last response, and subscribes to exactly these names. */
  acknowledge(...resourceNames: string[]): void {
    const { nonce = "", versionInfo = "" } = this.#last ?? {};
    this.send({ resourceNames, responseNonce: nonce, versionInfo });
  }

  async next(): Promise<DiscoveryResponse> {
    const { value, done } = await this.#responses.next();
    if (done) throw new Error("the stream has ended");
    this.#last = value;
    return value;
  }

  /** The secrets of the next response. */
  async secrets(): Promise<readonly Secret[]> {
    return secretsOf(await this.next());
  }

  end(): void {
    this.#outbox.end();
  }
}

export function secretsOf({ resources }: Pick<DiscoveryResponse, "resources">): readonly Secret[] {
  return resources.flatMap((resource) => anyUnpack(resource, SecretSchema) ?? []);
}

/** The PEM texts of a secret: chain and key, or roots. */
export function pemsOf({ type }: Secret): readonly string[] {
  const sources =
    type.case === "tlsCertificate"
      ? [type.value.certificateChain, type.value.privateKey]
      : type.case === "validationContext"
        ? [type.value.trustedCa]
        : [];
  return sources.map((source) =>
    Buffer.from((source?.specifier.value as Uint8Array) ?? []).toString(),
  );
}
