import { execFile } from "node:child_process";
import { connect } from "node:net";
import { messageOf } from "../../../foundation/errors.ts";
import { systemCode } from "../../../program/files/system-code.ts";
import type { ProbeMethod } from "../../configuration/readiness-probe.ts";
import { probeGrpc } from "./grpc-prober.ts";
import { probeHttp } from "./http-prober.ts";
import type { ProbeAddresses, Prober } from "./workload-health.ts";

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
