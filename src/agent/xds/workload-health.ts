import { execFile } from "node:child_process";
import { request as plaintextRequest } from "node:http";
import { request as tlsRequest } from "node:https";
import { connect } from "node:net";
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { Host } from "../../foundation/addresses.ts";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import type { Pause } from "../../foundation/pause.ts";
import {
  Health,
  HealthCheckRequestSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";
import { errorCode } from "../../program/files/small-file.ts";
import type { ProbeMethod, ReadinessProbe } from "../configuration/proxy-config.ts";
import type { HealthSettings, ProbeAddresses } from "../configuration/xds-settings.ts";
import type { WorkloadHealth } from "./xds-stream.ts";

interface HealthPorts {
  readonly pause: Pause;
  readonly log: OperationLog;
  readonly report: (health: WorkloadHealth) => void;
}

const longestFault = 500;

/**
 * Probes the workload until the signal aborts, and reports each change of its health. At first the workload counts as
 * unhealthy, so nothing is reported until it is healthy.
 */
export async function watchHealth(
  probe: Omit<ReadinessProbe, "method">,
  ask: Prober,
  { pause, log, report }: HealthPorts,
  signal: AbortSignal,
): Promise<void> {
  let isHealthy = false;
  let streak = 0;
  await pause(1000 * probe.initialDelaySeconds, signal);
  while (!signal.aborted) {
    const fault = await askInTime(ask, probe.timeoutSeconds, pause, signal);
    if (signal.aborted) return;
    const isChange = (fault === undefined) !== isHealthy;
    streak = isChange ? streak + 1 : 0;
    if (streak === (isHealthy ? probe.failureThreshold : probe.successThreshold)) {
      isHealthy = !isHealthy;
      streak = 0;
      report({ fault });
      log.operation({
        event: isHealthy ? "workload-healthy" : "workload-unhealthy",
        level: isHealthy ? "info" : "warning",
        ...(fault !== undefined && { detail: fault }),
      });
    }
    await pause(1000 * probe.periodSeconds, signal);
  }
}

async function askInTime(
  ask: Prober,
  seconds: number,
  pause: Pause,
  signal: AbortSignal,
): Promise<string | undefined> {
  const ending = new AbortController();
  const stop = AbortSignal.any([signal, ending.signal]);
  const late = pause(1000 * seconds, stop).then(() => `no answer within ${seconds} s`);
  const fault = await Promise.race([ask(stop), late]);
  ending.abort();
  return fault?.slice(0, longestFault);
}

interface EnvoyFaults {
  faults(): Promise<readonly string[]>;
}

/** Runs {@link watchHealth} for the workload's configured probe, after a check of Envoy. */
export function watchWorkload(
  { probe, addresses }: HealthSettings,
  ports: HealthPorts & { readonly proxy: EnvoyFaults | undefined },
  signal: AbortSignal,
): Promise<void> {
  const ask = behind(ports.proxy, createProber(probe.method, addresses));
  return watchHealth(probe, ask, ports, signal);
}

/** A prober that first requires that Envoy serves, because peers reach the workload only through Envoy. */
export function behind(proxy: EnvoyFaults | undefined, ask: Prober): Prober {
  return async (signal) => (await proxy?.faults())?.[0] ?? (await ask(signal));
}

/** Asks the workload once. @returns Why it is not healthy, or `undefined` if it is. */
export type Prober = (signal: AbortSignal) => Promise<string | undefined>;

/** Creates the prober for a method. It never rejects: an error means that the workload is unhealthy. */
export function createProber(method: ProbeMethod, addresses: ProbeAddresses): Prober {
  const ask = proberOf(method, addresses);
  return async (signal) => {
    try {
      return await ask(signal);
    } catch (error) {
      const code = errorCode(error) ?? "";
      // gRPC's codes are numbers, which say less than its messages.
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

/** Runs a command; status 0 is healthy. Its output is not logged. */
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
      // As with kubelets, the workload's certificate is not verified.
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
  const baseUrl = `http://${Host.bracketed(host)}:${port}`;
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
