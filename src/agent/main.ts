import { createOperationLog, type OperationLog } from "../foundation/events.ts";
import { type Agent, startAgent } from "./agent.ts";
import type { AgentConfiguration } from "./configuration/configuration.ts";
import type { ProxyControl } from "./envoy/envoy-process.ts";

const clock = (): Date => new Date();

/** The log of this process, on standard error: standard output may belong to a supervised program. */
export const agentLog: OperationLog = createOperationLog(clock, (line) => {
  process.stderr.write(`${line}\n`);
});

/** Starts an agent with the clock, the random numbers and the log of this process, beside a proxy. */
export async function startAgentProcess(
  configuration: AgentConfiguration,
  proxy: ProxyControl,
): Promise<Agent> {
  return await startAgent(configuration, { clock, random: Math.random, log: agentLog, proxy });
}
