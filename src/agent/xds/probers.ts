import { execFile } from "node:child_process";
import { request as plaintextRequest } from "node:http";
import { request as tlsRequest } from "node:https";
import { connect } from "node:net";
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { messageOf } from "../../foundation/errors.ts";
import { bracketed } from "../../foundation/text/socket-address.ts";
import {
  Health,
  HealthCheckRequestSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";
import { systemCode } from "../../program/files/small-file.ts";
import type { ProbeMethod } from "../configuration/proxy-config.ts";
import type { ProbeAddresses } from "../configuration/xds-settings.ts";

/** Asks the workload once. @returns Why it is not healthy, or `undefined` if it is. */
export type Prober = (signal: AbortSignal) => Promise<string | undefined>;

/** How a workload is asked. Errors of a prober are faults of the workload. */
export function createProber(method: ProbeMethod, addresses: ProbeAddresses): Prober {
  const ask = proberOf(method, addresses);
  return async (signal) => {
    try {
      return await ask(signal);
    } catch (error) {
      const code = systemCode(error) ?? "";
      // The codes of gRPC are numbers, and say less than its messages.
      return /^[A-Z]/.test(code) ? code : messageOf(error);
    }
  };
}

function proberOf(method: ProbeMethod, addresses: ProbeAddresses): Prober {
  switch (method.kind) {
    case "http":
      return (signal) => probeHttp(method, addresses, signal);
    case "grpc":
      return (signal) => probeGrpc(method, addresses, signal);
    case "tcp":
      return (signal) => probeTcp(method.host ?? addresses.host, method.port, signal);
    case "exec":
      return (signal) => probeExec(method.command, signal);
  }
}

function probeTcp(host: string, port: number, signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    const stop = (): void => void socket.destroy(new Error("stopped"));
    signal.addEventListener("abort", stop, { once: true });
    socket.once("error", reject);
    socket.once("connect", () => {
      resolve(undefined);
      socket.destroy();
    });
    socket.once("close", () => signal.removeEventListener("abort", stop));
  });
}

/** The output of the command stays out of logs and messages. */
function probeExec(
  [command = "", ...values]: readonly string[],
  signal: AbortSignal,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(command, values, { signal, killSignal: "SIGKILL" }, (error) => {
      resolve(error ? `the command failed: ${error.code ?? error.signal ?? "killed"}` : undefined);
    });
  });
}

type HttpMethod = Extract<ProbeMethod, { kind: "http" }>;

/** Asks by HTTP, and reads no more than the head of the answer. Status 200 to 399 is healthy. */
function probeHttp(
  { scheme, host, port, path, httpHeaders }: HttpMethod,
  addresses: ProbeAddresses,
  signal: AbortSignal,
): Promise<string | undefined> {
  const send = scheme === "https" ? tlsRequest : plaintextRequest;
  const { localAddress } = addresses;
  return new Promise((resolve, reject) => {
    const request = send({
      host: host ?? addresses.host,
      port,
      path,
      headers: {
        "user-agent": "istio-probe/1.0",
        ...Object.fromEntries(httpHeaders.map(({ name, value }) => [name.toLowerCase(), value])),
      },
      signal,
      agent: false,
      ...(localAddress && { localAddress, family: 4 }),
      // A workload's own certificate says nothing to its machine.
      rejectUnauthorized: false,
    });
    request.once("error", reject);
    request.once("response", ({ statusCode = 0 }) => {
      resolve(statusCode >= 200 && statusCode < 400 ? undefined : `HTTP status ${statusCode}`);
      request.destroy();
    });
    request.end();
  });
}

type GrpcMethod = Extract<ProbeMethod, { kind: "grpc" }>;

/** Asks by gRPC's health service, in plaintext, as kubelets do. */
async function probeGrpc(
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
