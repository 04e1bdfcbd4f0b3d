import { createOperationLog, type OperationLog } from "../foundation/event-log.ts";
import { type Agent, startAgent } from "./agent.ts";
import type { AgentConfiguration } from "./configuration/configuration.ts";

const clock = (): Date => new Date();

/** The log of this process. Standard output may belong to a program that the agent supervises. */
export const agentLog: OperationLog = createOperationLog(clock, (line) => {
  process.stderr.write(`${line}\n`);
});

/** Starts an agent on this process's clock, chance and standard error. */
export async function startAgentProcess(configuration: AgentConfiguration): Promise<Agent> {
  return await startAgent(configuration, { clock, random: Math.random, log: agentLog });
}
