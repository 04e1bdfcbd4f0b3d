import type { ServerHttp2Stream } from "node:http2";
import { Code } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import {
  type DiscoveryProtocol,
  isForEnvoy,
  type RequestPeek,
  typeOfResponse,
} from "./discovery-protocol.ts";
import {
  FrameError,
  Frames,
  type GrpcStatus,
  messageIn,
  parseStatus,
  statusOfHttp,
  statusOfReset,
  toFrame,
  toTrailers,
} from "./grpc.ts";
import type { IstiodConnection } from "./istiod-connection.ts";

/** How a proxied stream ended, and which side ended it. */
export interface StreamEnd {
  readonly by: "istiod" | "envoy" | "agent";
  readonly status: GrpcStatus;
  readonly wasConnected: boolean;
}

/** A discovery response that the proxy has received from istiod. */
export interface SeenResponse {
  readonly typeUrl: string;
  readonly octets: number;
  readonly isForwarded: boolean;
}

interface StreamObserver {
  connected(): void;
  request(request: RequestPeek): void;
  response(response: SeenResponse): void;
}

/** The health of the workload: why it is unhealthy, or `undefined` if it is healthy. */
export type WorkloadHealth = { readonly fault: string | undefined };

interface StreamParts {
  readonly downstream: ServerHttp2Stream;
  readonly protocol: DiscoveryProtocol;
  readonly connect: (path: string, signal: AbortSignal) => Promise<IstiodConnection>;
  readonly observer: StreamObserver;
  /** The workload's health by the last probe; `undefined` before the first one. */
  readonly health: () => WorkloadHealth | undefined;
}

const listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener";
const healthType = "type.googleapis.com/istio.v1.HealthInformation";

const noStatus: GrpcStatus = {
  code: Code.Internal,
  message: "istiod ended the stream without a status",
};

/** The most octets of requests that istiod may leave unread. Beyond it the stream ends, to bound memory. */
const maximumQueuedOctets = 64 * 1024 * 1024;

/**
 * Connects a stream of Envoy with one to istiod, until either ends.
 *
 * Requests are written whether or not istiod reads; responses only as fast as Envoy reads. Both peers write before they
 * read, so flow control in both directions could deadlock them.
 */
export class XdsStream {
  readonly #parts: StreamParts;
  readonly #ending = new AbortController();
  readonly #ended = Promise.withResolvers<StreamEnd>();
  #istiod: IstiodConnection | undefined;
  /** Whether a request for listeners was sent. Before that, istiod drops reports of health. */
  #mayReportHealth = false;

  constructor(parts: StreamParts) {
    this.#parts = parts;
  }

  async run(): Promise<StreamEnd> {
    const { downstream, protocol, connect, observer } = this.#parts;
    downstream.once("close", () => this.#end("envoy", statusOfReset(downstream.rstCode)));
    const head = { ":status": 200, "content-type": "application/grpc" };
    downstream.respond(head, { waitForTrailers: true });
    try {
      this.#istiod = await connect(protocol.path, this.#ending.signal);
    } catch (error) {
      this.#end("istiod", { code: Code.Unavailable, message: messageOf(error) });
    }
    const istiod = this.#istiod;
    if (this.#ending.signal.aborted) istiod?.close();
    else if (istiod) {
      observer.connected();
      this.#passResponses(istiod);
      this.#passRequests(istiod);
    }
    const end = await this.#ended.promise;
    istiod?.close();
    return end;
  }

  close(status: GrpcStatus): void {
    this.#end("agent", status);
  }

  /** Reports the workload's health to istiod, if it has seen a request for listeners and the stream is open. */
  sendHealth({ fault }: WorkloadHealth): void {
    if (!this.#mayReportHealth || this.#ending.signal.aborted) return;
    const { protocol, observer } = this.#parts;
    if (!this.#istiod?.stream.writable) return;
    this.#istiod.stream.write(toFrame(protocol.bareRequest(healthType, fault)));
    observer.request({ typeUrl: healthType, rejection: undefined });
  }

  #passRequests({ stream }: IstiodConnection): void {
    const { downstream } = this.#parts;
    const frames = new Frames("Envoy");
    downstream.on("data", (chunk: Buffer) =>
      this.#endAtFault(() => {
        // Writes all requests of a chunk at once.
        stream.cork();
        for (const frame of frames.take(chunk)) this.#passRequest(stream, frame);
        stream.uncork();
        if (stream.writableLength > maximumQueuedOctets) {
          const message = "istiod leaves too many requests unread";
          this.#end("agent", { code: Code.ResourceExhausted, message });
        }
      }),
    );
    downstream.once("end", () => stream.end());
  }

  #passRequest(stream: IstiodConnection["stream"], frame: Buffer): void {
    const { protocol, observer, health } = this.#parts;
    const request = protocol.peek(messageIn(frame));
    stream.write(frame);
    observer.request(request);
    if (this.#mayReportHealth || request.typeUrl !== listenerType) return;
    this.#mayReportHealth = true;
    const known = health();
    if (known) this.sendHealth(known);
  }

  #passResponses(istiod: IstiodConnection): void {
    const { downstream } = this.#parts;
    const { stream } = istiod;
    const frames = new Frames("istiod");
    let status: GrpcStatus | undefined;
    stream.once("response", (headers) => {
      const http = headers[":status"] ?? 0;
      status = parseStatus(headers) ?? (http === 200 ? undefined : statusOfHttp(http));
    });
    stream.once("trailers", (headers) => {
      status ??= parseStatus(headers);
    });
    stream.on("data", (chunk: Buffer) =>
      this.#endAtFault(() => {
        for (const frame of frames.take(chunk)) this.#passResponse(frame);
        if (downstream.writableNeedDrain) stream.pause();
      }),
    );
    downstream.on("drain", () => stream.resume());
    stream.once("end", () => {
      // An aborted stream emits `end`, too. Its status is known when it closes.
      if (!stream.aborted) this.#end("istiod", status ?? noStatus);
    });
    stream.once("close", () => this.#end("istiod", status ?? statusOfEnd(istiod)));
  }

  #passResponse(frame: Buffer): void {
    const { downstream, observer } = this.#parts;
    const message = messageIn(frame);
    const typeUrl = typeOfResponse(message);
    const isForwarded = isForEnvoy(typeUrl);
    if (isForwarded) downstream.write(frame);
    observer.response({ typeUrl, octets: message.length, isForwarded });
  }

  #endAtFault(act: () => void): void {
    if (this.#ending.signal.aborted) return;
    try {
      act();
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#end("agent", error.status);
    }
  }

  /** Ends both streams; only the first call has an effect. Envoy gets the status unless its stream is gone. */
  #end(by: StreamEnd["by"], status: GrpcStatus): void {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    this.#ended.resolve({ by, status, wasConnected: this.#istiod !== undefined });
    const { downstream } = this.#parts;
    if (downstream.destroyed) return;
    downstream.once("wantTrailers", () => downstream.sendTrailers(toTrailers(status)));
    downstream.end();
    // Discards requests of an Envoy that has not noticed yet.
    downstream.resume();
  }
}

function statusOfEnd({ stream, isDown, fault }: IstiodConnection): GrpcStatus {
  if (!isDown()) return statusOfReset(stream.rstCode);
  return { code: Code.Unavailable, message: fault() ?? "transport is closing" };
}
