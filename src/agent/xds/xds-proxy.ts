import type { Http2Server, IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { Code } from "@connectrpc/connect";
import type { Registry } from "prom-client";
import type { OperationLog } from "../../foundation/events.ts";
import type { XdsSettings } from "../configuration/xds-settings.ts";
import { type Http2Socket, serveHttp2 } from "../sockets/unix-socket.ts";
import { type DiscoveryProtocol, discoveryProtocols } from "./discovery-protocol.ts";
import { type GrpcStatus, isExpected, ok, toTrailers } from "./grpc.ts";
import { type ConnectionPorts, connectToIstiod } from "./istiod-connection.ts";
import { type XdsReport, XdsStatus } from "./xds-status.ts";
import { type StreamEnd, type WorkloadHealth, XdsStream } from "./xds-stream.ts";

interface XdsPorts extends ConnectionPorts {
  readonly log: OperationLog;
  readonly registry: Registry;
}

const windowOctets = 1 << 20;
const maximumStreams = 100;

/**
 * Passes Envoy's discovery requests on to istiod, and istiod's responses to Envoy. The agent alone has the
 * credentials for istiod.
 */
export class XdsProxy {
  readonly #settings: XdsSettings;
  readonly #ports: XdsPorts;
  readonly #status: XdsStatus;
  #socket: Http2Socket | undefined;
  #current: XdsStream | undefined;
  #health: WorkloadHealth | undefined;
  #streams = 0;

  constructor(settings: XdsSettings, ports: XdsPorts) {
    this.#settings = settings;
    this.#ports = ports;
    this.#status = new XdsStatus(settings.istiod.address, ports.clock, ports.registry);
  }

  /** Opens the socket. @throws ConfigurationError when another process serves on it. */
  async listen(): Promise<void> {
    const settings = { maxConcurrentStreams: maximumStreams, initialWindowSize: windowOctets };
    this.#socket = await serveHttp2(
      { path: this.#settings.socket, mode: 0o666, server: { settings }, log: this.#ports.log },
      (server) => this.#attach(server),
    );
  }

  report(): XdsReport {
    return this.#status.report();
  }

  /** Reports the workload's health to istiod, on the current stream and at the start of each later one. */
  reportHealth(health: WorkloadHealth): void {
    this.#health = health;
    this.#current?.sendHealth(health);
  }

  async close(): Promise<void> {
    this.#current?.close({ code: Code.Unavailable, message: "the agent is closing" });
    await this.#socket?.close();
  }

  #attach(server: Http2Server): void {
    server.on("session", (session) => session.setLocalWindowSize(windowOctets));
    server.on("stream", (stream, headers) => {
      // An error of a stream affects no other stream.
      stream.on("error", () => undefined);
      const protocol = discoveryProtocols.get(String(headers[":path"]));
      if (!isGrpc(headers)) stream.respond({ ":status": 415 }, { endStream: true });
      else if (protocol) void this.#serve(stream, protocol);
      else refuse(stream, { code: Code.Unimplemented, message: "unknown service or method" });
    });
  }

  /** Serves a stream, and closes the one before: Envoy may reconnect before the agent notices that the old one has ended. */
  async #serve(downstream: ServerHttp2Stream, protocol: DiscoveryProtocol): Promise<void> {
    const number = ++this.#streams;
    const counts = { requests: 0, responses: 0 };
    const stream = new XdsStream({
      downstream,
      protocol,
      connect: (path, signal) => connectToIstiod(this.#settings.istiod, path, this.#ports, signal),
      health: () => this.#health,
      observer: {
        connected: () => this.#connected(number, protocol),
        request: (request) => {
          counts.requests++;
          this.#status.request(request);
        },
        response: (response) => {
          counts.responses++;
          this.#status.response(response);
          if (!response.isForwarded) this.#withheld(response.typeUrl);
        },
      },
    });
    this.#current?.close({ code: ok, message: "" });
    this.#current = stream;
    this.#status.opening();
    const begin = this.#ports.clock();
    const end = await stream.run();
    const isCurrent = this.#current === stream;
    if (isCurrent) this.#current = undefined;
    this.#status.ended(end, isCurrent);
    const seconds = (this.#ports.clock().getTime() - begin.getTime()) / 1000;
    this.#logEnd(number, end, { seconds, ...counts });
  }

  #connected(connection: number, { name: protocol }: DiscoveryProtocol): void {
    this.#status.connected(protocol);
    const { address } = this.#settings.istiod;
    this.#ports.log.operation({
      event: "xds-connected",
      level: "info",
      address,
      connection,
      protocol,
    });
  }

  #logEnd(connection: number, end: StreamEnd, counts: Readonly<Record<string, number>>): void {
    const { by, status, wasConnected } = end;
    this.#ports.log.operation({
      event: wasConnected || by !== "istiod" ? "xds-ended" : "xds-not-connected",
      level: isExpected(status) ? "info" : "warning",
      connection,
      by,
      code: status.code,
      ...(status.message !== "" && { detail: status.message.slice(0, 500) }),
      ...counts,
    });
  }

  #withheld(typeUrl: string): void {
    const type = typeUrl.slice(0, 200);
    this.#ports.log.operation({ event: "xds-withheld", level: "warning", type });
  }
}

function isGrpc(headers: IncomingHttpHeaders): boolean {
  return /^application\/grpc(?:\+proto)?$/.test(headers["content-type"] ?? "");
}

function refuse(stream: ServerHttp2Stream, status: GrpcStatus): void {
  const head = { ":status": 200, "content-type": "application/grpc", ...toTrailers(status) };
  stream.respond(head, { endStream: true });
}
