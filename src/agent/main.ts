import { type Agent, startAgent } from "./agent.ts";
import type { AgentConfiguration } from "./configuration/configuration.ts";
import type { AgentEvent } from "./event-log.ts";

/** Starts an agent on this process's clock, chance and standard error. */
export async function startAgentProcess(configuration: AgentConfiguration): Promise<Agent> {
  const clock = (): Date => new Date();
  return await startAgent(configuration, { clock, random: Math.random, log: writeEvent });
}

/** Writes one event as one line of JSON. Standard output may belong to a program that we supervise. */
export function writeEvent({ event, level, ...details }: AgentEvent): void {
  const time = new Date().toISOString();
  process.stderr.write(`${JSON.stringify({ time, level, event, ...details })}\n`);
}
