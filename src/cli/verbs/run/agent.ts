import { Command } from "commander";
import { drainPolicyOf, parseConfiguration } from "../../../agent/configuration/configuration.ts";
import { parseVariables } from "../../../agent/configuration/environment.ts";
import { EnvoyAdmin } from "../../../agent/envoy/envoy-admin.ts";
import {
  envoyOptions,
  isEnvoy,
  type ProxyCommand,
  withOptions,
} from "../../../agent/envoy/envoy-options.ts";
import { EnvoyProcess, usualRestarts } from "../../../agent/envoy/envoy-process.ts";
import { agentLog, startAgentProcess } from "../../../agent/main.ts";
import { handleSignals, watchSignals } from "../../../program/signals.ts";
import { addExitCodes } from "../../terminal/command-line.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { bootstrapCommand } from "./agent-bootstrap.ts";
import { showStatus } from "./agent-status.ts";

/** `rampart agent <verb>`: the certificates of a workload. */
export function agentCommand(terminal: Terminal): Command {
  const agent = new Command("agent").description(
    "Obtain, renew and serve a workload's certificates.",
  );
  agent
    .command("run")
    .description("Run the agent, configured by environment variables, and a proxy beside it.")
    .argument("[command...]", "the command of a proxy to supervise, after --")
    .option(
      "--admin <url>",
      "the proxy's admin interface, for readiness and drains; off for a proxy without one (default: port 15000, or proxyAdminPort of PROXY_CONFIG)",
    )
    .action((command: string[], options: { admin?: string }) =>
      runAgent(terminal, command, options.admin),
    );
  agent.addCommand(bootstrapCommand(terminal));
  addExitCodes(agent.command("status"), { attention: "The agent is not ready." })
    .description("Show every identity of a running agent.")
    .option("--json", "print JSON")
    .action(async (options: { json?: boolean }) => {
      const { RAMPART_STATUS_ADDR } = await orOperatorError(async () =>
        parseVariables(terminal.environment),
      );
      const { host, port } = RAMPART_STATUS_ADDR;
      await showStatus(terminal, `http://${host}:${port}/status`, options.json === true);
    });
  return agent;
}

async function runAgent(
  terminal: Terminal,
  given: readonly string[],
  admin: string | undefined,
): Promise<void> {
  const [command, ...values] = given;
  await (command === undefined
    ? runAlone(terminal)
    : runWithProxy(terminal, { command, arguments: values }, admin));
}

/** Without a proxy there is nothing to drain, and `/quitquitquit` ends the agent. */
async function runAlone({ environment }: Terminal): Promise<void> {
  // From here on, so that an agent that a signal ends while it begins removes its sockets, too.
  using watch = watchSignals();
  const quit = Promise.withResolvers<void>();
  const agent = await orOperatorError(async () =>
    startAgentProcess(parseConfiguration(environment), {
      faults: async () => [],
      metrics: async () => "",
      drain: async () => undefined,
      quit: quit.resolve,
    }),
  );
  await Promise.race([quit.promise, watch.signal]);
  await agent.close();
}

/** The proxy ends first, because it needs its certificate while it drains. */
async function runWithProxy(
  terminal: Terminal,
  command: ProxyCommand,
  admin: string | undefined,
): Promise<void> {
  const { proxy, agent } = await orOperatorError(async () => {
    const proxy = await createProxy(command, admin, terminal.environment);
    return {
      proxy,
      agent: await startAgentProcess(parseConfiguration(terminal.environment), proxy),
    };
  });
  using _ = handleSignals(() => void proxy.end());
  for (const signal of ["SIGUSR1", "SIGHUP"] as const)
    process.on(signal, () => proxy.signal(signal));
  terminal.exitWith(await proxy.run());
  await agent.close();
}

/** @throws ConfigurationError or OperatorError for a wrong environment. */
async function createProxy(
  given: ProxyCommand,
  adminOption: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<EnvoyProcess> {
  const variables = parseVariables(environment);
  const { proxyAdminPort } = variables.PROXY_CONFIG;
  const url = adminOption ?? `http://127.0.0.1:${proxyAdminPort}`;
  const admin = url === "off" ? undefined : url;
  if (admin !== undefined && !isEnvoy(given.command)) {
    const detail = `${given.command} is run as it is: unless it gives Envoy --drain-strategy immediate, a drain cuts connections off`;
    agentLog.operation({ event: "proxy-arguments-unchanged", level: "warning", detail });
  }
  return new EnvoyProcess({
    ...withOptions(given, await envoyOptions(environment, given.arguments)),
    admin: admin === undefined ? undefined : new EnvoyAdmin(admin),
    drain: drainPolicyOf(variables),
    restarts: usualRestarts,
    log: agentLog,
  });
}
