import { promisify } from "node:util";
import {
  Client,
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

export type FakeIstiod = Awaited<ReturnType<typeof startFakeIstiod>>;

/**
 * Starts an istiod of which a test is the mind.
 *
 * @param port The port of an istiod that was there before; any by default.
 * @param identity A new one by default. `plaintext` is an istiod without TLS.
 */
export async function startFakeIstiod(port: number = 0, identity?: TlsIdentity | "plaintext") {
  const isPlaintext = identity === "plaintext";
  const { key, ca } = isPlaintext ? { key: "", ca: "" } : (identity ?? (await createTlsIdentity()));
  const streams = new Arrivals<ReturnType<typeof istiodStream>>();
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

/** A stream as istiod sees it. */
function istiodStream(path: string, call: ServerDuplexStream<Buffer, Buffer>) {
  const requests = new Arrivals<Buffer>();
  /** Resolves when the proxy has ended the stream. */
  const isOver = new Promise<void>((resolve) => {
    call.on("cancelled", resolve);
    call.on("end", resolve);
  });
  call.on("data", (request: Buffer) => requests.add(request));
  call.on("error", () => undefined);
  return {
    path,
    metadata: call.metadata.getMap() as Readonly<Record<string, unknown>>,
    requests,
    call,
    isOver,
    send: (response: Uint8Array) => void call.write(Buffer.from(response)),
    end: (status?: { readonly code: number; readonly details: string }) =>
      status ? call.emit("error", { ...status, metadata: new Metadata() }) : call.end(),
  };
}

/** Opens a stream as Envoy does, each on a connection of its own. */
export function openEnvoyStream(
  socket: string,
  protocol: keyof typeof paths,
  path: string = paths[protocol],
) {
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
  const send = (request: Uint8Array) => void call.write(Buffer.from(request));
  return { responses, call, status, send };
}

/** Values that arrive one by one, for a test that waits for them. */
export class Arrivals<T> {
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
