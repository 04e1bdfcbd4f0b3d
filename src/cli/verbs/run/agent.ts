import { Command } from "commander";
import { type Agent, startAgent } from "../../../agent/agent.ts";
import type { AgentPorts } from "../../../agent/agent-parts.ts";
import type { AgentStatus } from "../../../agent/agent-status.ts";
import { parseConfiguration, statusAddressOf } from "../../../agent/configuration.ts";
import { createProxy } from "../../../agent/proxy.ts";
import { Host } from "../../../foundation/addresses.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { OperationLog } from "../../../foundation/events.ts";
import { ResponseBody } from "../../../foundation/fetch.ts";
import { SocketAddress } from "../../../foundation/socket-address.ts";
import { NodeFetch } from "../../../program/http/http-client.ts";
import { EnvironmentProxies } from "../../../program/http/proxies.ts";
import { LogOutput } from "../../../program/log-output.ts";
import { Runtime } from "../../../program/runtime.ts";
import { addExitCodes, exitCodes } from "../../terminal/command-line.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import { Signals } from "../../terminal/signals.ts";
import type { OutputReader, Terminal } from "../../terminal/terminal.ts";
import { printable } from "../../terminal/text.ts";
import { bootstrapCommand } from "./agent-bootstrap.ts";
import { telemetryOf } from "./telemetry.ts";

/** `rampart agent <verb>`: gets, renews and serves the certificates of a workload. */
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
    .option("--unit", "print the unit for systemd, and do nothing else")
    .action(async (command: string[], { admin, unit }: { admin?: string; unit?: boolean }) => {
      if (!unit) return runAgent(terminal, command, admin);
      const { systemdUnits } = await import("./systemd-units.ts");
      terminal.print(systemdUnits.agent.trimEnd());
    });
  agent.addCommand(bootstrapCommand(terminal));
  addExitCodes(agent.command("status"), { attention: "The agent is not ready." })
    .description("Show every identity of a running agent.")
    .option("--json", "print JSON")
    .action(async (options: { json?: boolean }) => {
      const { host, port } = await orOperatorError(async () =>
        statusAddressOf(terminal.environment),
      );
      await showStatus(
        terminal,
        `http://${Host.bracketed(SocketAddress.loopbackOf(host))}:${port}/status`,
        options,
      );
    });
  return agent;
}

async function runAgent(
  terminal: Terminal,
  given: readonly string[],
  admin: string | undefined,
): Promise<void> {
  leaveCompilersToOthers();
  const [command, ...values] = given;
  await (command === undefined
    ? runAlone(terminal)
    : runWithProxy(terminal, { command, arguments: values }, admin));
}

/**
 * Removes `--jitless` from NODE_OPTIONS, because the option is for the agent alone: a proxy, hook or probe that Node runs
 * needs WebAssembly for its `fetch`.
 */
function leaveCompilersToOthers(): void {
  const { NODE_OPTIONS } = process.env;
  if (NODE_OPTIONS) process.env["NODE_OPTIONS"] = NODE_OPTIONS.replace("--jitless", "").trim();
}

/** Runs an agent without a proxy. `/quitquitquit` ends it at once, because there is nothing to drain. */
async function runAlone({ environment }: Terminal): Promise<void> {
  // Signals are watched from here on, so that an agent that is ended during its start removes its sockets as well.
  using watch = Signals.watch();
  const quit = Promise.withResolvers<void>();
  const agent = await orOperatorError(async () =>
    startAgentHere(environment, {
      faults: async () => [],
      metrics: async () => "",
      drain: async () => undefined,
      quit: quit.resolve,
    }),
  );
  await Promise.race([quit.promise, watch.signal]);
  await agent.close();
}

/** Runs an agent and its proxy. The proxy ends first, because it needs its certificate while it drains. */
async function runWithProxy(
  terminal: Terminal,
  command: Parameters<typeof createProxy>[0],
  admin: string | undefined,
): Promise<void> {
  const { proxy, agent } = await orOperatorError(async () => {
    const proxy = await createProxy(command, admin, terminal.environment, agentLog);
    return {
      proxy,
      agent: await startAgentHere(terminal.environment, proxy),
    };
  });
  using _ = Signals.handle(() => void proxy.end());
  for (const signal of ["SIGUSR1", "SIGHUP"] as const)
    process.on(signal, () => proxy.signal(signal));
  terminal.exitWith(await proxy.run());
  await agent.close();
}

const ask = NodeFetch.trusting(undefined);

/** The longest status: a node's agent reports on every workload of its node. */
const maximumOctets = 16 * 1024 * 1024;

/**
 * Prints the status of a running agent; if it is not ready, the exit code is `attention`.
 * @throws OperatorError if no agent answers.
 */
export async function showStatus(
  terminal: Terminal,
  url: string,
  options: OutputReader,
): Promise<void> {
  const answer = await fetchStatus(url).catch(() => undefined);
  if (answer === undefined) throw new OperatorError(`no agent answers at ${url}`);
  const status = answer as AgentStatus;
  terminal.answer(status, options, () => describe(status).join("\n"));
  if (!status.isReady) terminal.exitWith(exitCodes.attention);
}

async function fetchStatus(url: string): Promise<unknown> {
  const response = await ask(url, { signal: AbortSignal.timeout(5_000) });
  return response.ok ? ResponseBody.readJson(response, maximumOctets) : undefined;
}

/** Formats the status of an agent for people, in lines. */
export function describe(status: AgentStatus): readonly string[] {
  const { isReady, reasons, proxies, identities, roots, bundle, revocation, xds } = status;
  return [
    isReady ? "ready" : "not ready",
    ...reasons.map((reason) => `  ${printable(reason)}`),
    ...proxies.map((each) => `  ${each}`),
    ...identities.flatMap((identity) => [
      "",
      identity.spiffeId,
      `  expires       ${identity.notAfter ?? "-"} (${identity.hoursLeft} h left)`,
      `  next renewal  ${identity.nextAttempt}`,
      `  issuer        ${identity.issuer ?? "-"}`,
      `  names         ${identity.names ?? "-"}`,
      `  last error    ${identity.lastError ?? "-"}`,
    ]),
    "",
    `trust bundle    sequence ${bundle.sequence ?? "-"}, current at ${bundle.confirmedAt ?? "-"}`,
    ...(bundle.lastError === undefined ? [] : [`  last error    ${bundle.lastError}`]),
    ...roots.flatMap(({ subject, notAfter, sha256 }) => [
      `  root          ${subject.replaceAll("\n", ", ")}, until ${notAfter}`,
      `                SHA-256 ${sha256}`,
    ]),
    ...describeRevocation(revocation),
    ...(xds ? ["", ...describeXds(xds)] : []),
  ];
}

function describeRevocation({ isUsed, lists, lastError }: AgentStatus["revocation"]) {
  if (lists.length === 0) return [];
  return [
    `CRLs            ${isUsed ? "in use" : "not in use"}`,
    ...(lastError === undefined ? [] : [`  last error    ${printable(lastError)}`]),
    ...lists.map(({ authority, number, nextUpdate }) => {
      return `  of authority  ${authority}, number ${number ?? "-"}, until ${nextUpdate ?? "-"}`;
    }),
  ];
}

function describeXds({
  address,
  protocol,
  connectedSince,
  lastEnd,
  types,
  lastNack,
}: NonNullable<AgentStatus["xds"]>) {
  return [
    `istiod          ${address}, ${connectedSince ? `connected since ${connectedSince} (${protocol})` : "not connected"}`,
    ...(lastEnd
      ? [`  last end      ${lastEnd.at} by ${lastEnd.by}: ${printable(lastEnd.detail)}`]
      : []),
    ...types.map(({ typeUrl, secondsAgo, pushes, nacks }) => {
      const age = secondsAgo === undefined ? "none" : `${secondsAgo} s ago`;
      return `  last push     ${age}, ${pushes} in all, ${nacks} rejected: ${shortType(typeUrl)}`;
    }),
    ...(lastNack
      ? [
          `  last NACK     ${lastNack.at} ${shortType(lastNack.typeUrl)}: ${printable(lastNack.detail)}`,
        ]
      : []),
  ];
}

const shortType = (typeUrl: string): string =>
  printable(typeUrl.replace("type.googleapis.com/", ""));

const clock = (): Date => new Date();

/** The log of this process, on standard error, because standard output may belong to a supervised program. */
const logOutput = LogOutput.open({ stdout: process.stderr, stderr: process.stderr }, clock);
const agentLog: OperationLog = OperationLog.create(clock, logOutput.write);

/** Makes the source of tokens from AWS; `undefined` unless RAMPART_TOKEN_SOURCE is `aws`. */
async function awsTokensHere(environment: NodeJS.ProcessEnv) {
  if (environment["RAMPART_TOKEN_SOURCE"] !== "aws") return undefined;
  const { awsTokensOf } = await import("../../../node/key-service/aws-credential.ts");
  return awsTokensOf(environment, clock);
}

/** Starts an agent beside a proxy, with the clock, the random numbers and the log of this process. */
async function startAgentHere(
  environment: NodeJS.ProcessEnv,
  proxy: NonNullable<AgentPorts["proxy"]>,
): Promise<Agent> {
  const configuration = parseConfiguration(environment, await awsTokensHere(environment));
  Runtime.log(agentLog);
  EnvironmentProxies.log(agentLog);
  const telemetry = await telemetryOf("agent", { environment, clock });
  const ports = { clock, random: Math.random, log: agentLog, logOutput, telemetry, proxy };
  return startAgent(configuration, ports);
}
