import { Command } from "commander";
import { ConfigurationError } from "../agent/agent-fault.ts";
import { parseConfiguration } from "../agent/configuration.ts";
import { startAgentProcess } from "../agent/main.ts";
import { Obstacle } from "./obstacle.ts";

/** `rampart agent <verb>`: the workload's side. */
export function agentCommand(): Command {
  const agent = new Command("agent").description(
    "Get, keep and hand out a workload's certificates.",
  );
  agent
    .command("run")
    .description("Run the agent; its settings are environment variables.")
    .action(() => obstacles(runAgent));
  return agent;
}

async function runAgent(): Promise<void> {
  const agent = await startAgentProcess(parseConfiguration(process.env));
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
  await agent.close();
}

/** What the operator can mend is a sentence, and not a stack. */
async function obstacles(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof ConfigurationError) throw new Obstacle(error.message);
    throw error;
  }
}
