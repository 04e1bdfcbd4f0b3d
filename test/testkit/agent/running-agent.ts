import { join } from "node:path";
import { onTestFinished } from "vitest";
import { startAgent } from "../../../src/agent/agent.ts";
import type { Environment } from "../../../src/agent/configuration/environment.ts";
import { parseConfiguration } from "../../../src/agent/configuration.ts";
import { telemetryOf } from "../../../src/cli/verbs/run/telemetry.ts";
import { createEventRecorder } from "../log/event-recorder.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import type { HttpCa } from "./http-ca.ts";

/** The environment of the workload `foo/bar`, whose files are in this folder: `root-cert.pem`, `token` and `sds`. */
export const environmentIn = (folder: string, CA_ADDR: string): Environment => ({
  CA_ADDR,
  CA_ROOT_CA: join(folder, "root-cert.pem"),
  POD_NAMESPACE: "foo",
  SERVICE_ACCOUNT: "bar",
  RAMPART_TOKEN_FILE: join(folder, "token"),
  RAMPART_SDS_SOCKET: join(folder, "sds"),
  RAMPART_STATUS_ADDR: "127.0.0.1:0",
});

/** @param variables Changes to an environment that works. */
export async function runAgent(ca: HttpCa, variables: Environment = {}) {
  const folder = await temporaryFolder();
  const environment = {
    CA_ADDR: ca.url,
    POD_NAMESPACE: "foo",
    SERVICE_ACCOUNT: "bar",
    RAMPART_TOKEN_FILE: await ca.tokenFile("foo:bar"),
    RAMPART_SDS_SOCKET: join(folder, "sds"),
    RAMPART_STATUS_ADDR: "127.0.0.1:0",
    ...variables,
  };
  const started = await startTestAgent(environment);
  return { ...started, folder, sdsSocket: environment.RAMPART_SDS_SOCKET };
}

/** Starts an agent in this process with exactly this environment. It ends with the test. */
export async function startTestAgent(environment: Environment) {
  const log = createEventRecorder();
  const clock = (): Date => new Date();
  const telemetry = await telemetryOf("agent", { environment, clock });
  const ports = { clock, random: Math.random, log, telemetry };
  const agent = await startAgent(parseConfiguration(environment), ports);
  onTestFinished(() => agent.close());
  return { agent, events: log.operations, event: log.until };
}
