import { promisify } from "node:util";
import {
  Client,
  type ClientDuplexStream,
  credentials,
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type StatusObject,
} from "@grpc/grpc-js";
import { onTestFinished } from "vitest";
import { createTlsIdentity, type TlsIdentity } from "../network/tls-identity.ts";

const service = "/envoy.service.discovery.v3.AggregatedDiscoveryService";

/** The paths of the two protocols. */
export const paths = {
  incremental: `${service}/DeltaAggregatedResources`,
  "state-of-the-world": `${service}/StreamAggregatedResources`,
} as const;

/** Both peers are grpc-js, which shares no code with the proxy, and leave messages as octets. */
const asIs = (octets: Buffer): Buffer => octets;
const unlimited = {
  "grpc.max_receive_message_length": -1,
  "grpc.max_send_message_length": -1,
};

/** A stream as istiod sees it. */
export interface IstiodStream {
  readonly path: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly requests: Arrivals<Buffer>;
  readonly call: ServerDuplexStream<Buffer, Buffer>;
  readonly send: (response: Uint8Array) => void;
  readonly end: (status?: { readonly code: number; readonly details: string }) => void;
  /** Resolves when the proxy has ended the stream. */
  readonly isOver: Promise<void>;
}

/** An istiod of which a test is the mind. */
export interface FakeIstiod {
  readonly address: string;
  readonly port: number;
  /** PEM. */
  readonly root: string;
  readonly streams: Arrivals<IstiodStream>;
  readonly stop: () => void;
}

/**
 * @param port The port of an istiod that was there before; any by default.
 * @param identity A new one by default. `plaintext` is an istiod without TLS.
 */
export async function startFakeIstiod(
  port: number = 0,
  identity?: TlsIdentity | "plaintext",
): Promise<FakeIstiod> {
  const isPlaintext = identity === "plaintext";
  const { key, ca } = isPlaintext ? { key: "", ca: "" } : (identity ?? (await createTlsIdentity()));
  const streams = new Arrivals<IstiodStream>();
  const server = new Server(unlimited);
  const accept = (path: string) => (call: ServerDuplexStream<Buffer, Buffer>) =>
    streams.add(istiodStream(path, call));
  const definition = (path: string) => ({
    path,
    requestStream: true,
    responseStream: true,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  });
  server.addService(
    { delta: definition(paths.incremental), stream: definition(paths["state-of-the-world"]) },
    { delta: accept(paths.incremental), stream: accept(paths["state-of-the-world"]) },
  );
  const pair = { private_key: Buffer.from(key), cert_chain: Buffer.from(ca) };
  const bind = promisify(server.bindAsync.bind(server));
  const secured = isPlaintext
    ? ServerCredentials.createInsecure()
    : ServerCredentials.createSsl(null, [pair]);
  const bound = await bind(`127.0.0.1:${port}`, secured);
  const stop = (): void => server.forceShutdown();
  onTestFinished(stop);
  return { address: `127.0.0.1:${bound}`, port: bound as number, root: ca, streams, stop };
}

function istiodStream(path: string, call: ServerDuplexStream<Buffer, Buffer>): IstiodStream {
  const requests = new Arrivals<Buffer>();
  const isOver = new Promise<void>((resolve) => {
    call.on("cancelled", resolve);
    call.on("end", resolve);
  });
  call.on("data", (request: Buffer) => requests.add(request));
  call.on("error", () => undefined);
  return {
    path,
    metadata: call.metadata.getMap(),
    requests,
    call,
    isOver,
    send: (response) => void call.write(Buffer.from(response)),
    end: (status) =>
      status ? call.emit("error", { ...status, metadata: new Metadata() }) : call.end(),
  };
}

/** A stream as Envoy sees it. */
export interface EnvoyStream {
  readonly responses: Arrivals<Buffer>;
  readonly call: ClientDuplexStream<Buffer, Buffer>;
  readonly send: (request: Uint8Array) => void;
  readonly status: Promise<StatusObject>;
}

/** Opens a stream, each on a connection of its own, as Envoy does. */
export function openEnvoyStream(
  socket: string,
  protocol: keyof typeof paths,
  path: string = paths[protocol],
): EnvoyStream {
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), {
    ...unlimited,
    "grpc.use_local_subchannel_pool": 1,
  });
  onTestFinished(() => client.close());
  const call = client.makeBidiStreamRequest<Buffer, Buffer>(path, asIs, asIs);
  const responses = new Arrivals<Buffer>();
  call.on("data", (response: Buffer) => responses.add(response));
  call.on("error", () => undefined);
  const status = new Promise<StatusObject>((resolve) => call.on("status", resolve));
  return { responses, call, status, send: (request) => void call.write(Buffer.from(request)) };
}

/** Values that arrive one by one, for a test that waits for them. */
class Arrivals<T> {
  readonly all: T[] = [];
  readonly #waiting = new Set<() => void>();

  add(value: T): void {
    this.all.push(value);
    for (const check of [...this.#waiting]) check();
  }

  /** Resolves with the n-th value, counted from 1, even if it came before the call. */
  nth(n: number): Promise<T> {
    return new Promise((resolve) => {
      const check = (): void => {
        const [value] = this.all.slice(n - 1, n);
        if (value === undefined) return;
        this.#waiting.delete(check);
        resolve(value);
      };
      this.#waiting.add(check);
      check();
    });
  }
}
