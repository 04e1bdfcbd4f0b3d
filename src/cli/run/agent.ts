import { Command } from "commander";
import type { Agent } from "../../agent/agent.ts";
import { parseConfiguration } from "../../agent/configuration/configuration.ts";
import { parseVariables } from "../../agent/configuration/environment.ts";
import { isEnvoy, withOptions } from "../../agent/envoy/envoy-arguments.ts";
import { envoyOptions } from "../../agent/envoy/envoy-options.ts";
import { EnvoyProcess, usualRestarts } from "../../agent/envoy/envoy-process.ts";
import { agentLog, startAgentProcess } from "../../agent/main.ts";
import { orOperatorError } from "../terminal/operator-error.ts";
import { bootstrapCommand } from "./agent-bootstrap.ts";
import { showStatus } from "./agent-status.ts";

/** `rampart agent <verb>`: the certificates of a workload. */
export function agentCommand(): Command {
  const agent = new Command("agent").description(
    "Obtain, renew and serve a workload's certificates.",
  );
  agent
    .command("run")
    .description("Run the agent, configured by environment variables, and a proxy beside it.")
    .argument("[command...]", "the command of a proxy to supervise, after --")
    .option("--admin <url>", "the proxy's admin interface, for draining", "http://127.0.0.1:15000")
    .action((command: string[], options: { admin: string }) => runAgent(command, options.admin));
  agent.addCommand(bootstrapCommand());
  agent
    .command("status")
    .description("Show every identity of a running agent.")
    .option("--json", "print JSON")
    .action(async (options: { json?: boolean }) => {
      const { RAMPART_STATUS_ADDR } = await orOperatorError(async () =>
        parseVariables(process.env),
      );
      const { host, port } = RAMPART_STATUS_ADDR;
      await showStatus(`http://${host}:${port}/status`, options.json === true);
    });
  return agent;
}

async function runAgent([command, ...values]: readonly string[], admin: string): Promise<void> {
  const agent = await orOperatorError(async () =>
    startAgentProcess(parseConfiguration(process.env)),
  );
  if (command === undefined) await runAlone(agent);
  else {
    const drainMilliseconds = parseVariables(process.env).TERMINATION_DRAIN_DURATION_SECONDS * 1000;
    if (!isEnvoy(command)) {
      const detail = `${command} is run as it is: unless it gives Envoy --drain-strategy immediate, a drain cuts connections off`;
      agentLog.operation({ event: "proxy-arguments-unchanged", level: "warning", detail });
    }
    const options = await orOperatorError(() => envoyOptions(process.env, values));
    const proxy = new EnvoyProcess({
      ...withOptions({ command, arguments: values }, options),
      adminUrl: admin,
      drainMilliseconds,
      restarts: usualRestarts,
      log: agentLog,
    });
    process.exitCode = await runWithProxy(agent, proxy);
  }
}

async function runAlone(agent: Agent): Promise<void> {
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
  await agent.close();
}

/** The proxy ends first, because it needs its certificate while it drains. */
async function runWithProxy(agent: Agent, proxy: EnvoyProcess): Promise<number> {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void proxy.end());
  for (const signal of ["SIGUSR1", "SIGHUP"] as const)
    process.on(signal, () => proxy.signal(signal));
  const code = await proxy.run();
  await agent.close();
  return code;
}
