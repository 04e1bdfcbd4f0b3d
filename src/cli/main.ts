#!/usr/bin/env node
import { Command, CommanderError } from "commander";
import { agentCommand } from "./agent.ts";
import { authorityCommand } from "./authority.ts";
import { clusterCommand } from "./cluster.ts";
import { distributeCommand } from "./distribute.ts";
import { gatewayCommand } from "./gateway.ts";
import { kekCommand } from "./kek.ts";
import { Obstacle } from "./obstacle.ts";
import { rootCommand } from "./root.ts";
import { serveCommand } from "./serve.ts";

const clock = (): Date => new Date();

/** `rampart <noun> <verb>`: one file beside this one for each noun. */
function rampart(): Command {
  const program = new Command("rampart")
    .description("The certificate authority of a service mesh, without a server to run.")
    .showHelpAfterError("(add --help to see what there is)")
    .addCommand(authorityCommand(clock))
    .addCommand(rootCommand(clock))
    .addCommand(clusterCommand(clock))
    .addCommand(kekCommand(clock))
    .addCommand(serveCommand(clock))
    .addCommand(gatewayCommand(clock))
    .addCommand(agentCommand())
    .addCommand(distributeCommand(clock))
    .exitOverride();
  return inherit(program);
}

/** Hands the settings down to commands that were built on their own. */
function inherit(parent: Command): Command {
  for (const child of parent.commands) inherit(child.copyInheritedSettings(parent));
  return parent;
}

try {
  await rampart().parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}

/** Commander has printed what it throws; an obstacle is one sentence; the rest is a defect with its stack. */
function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode;
  console.error(error instanceof Obstacle ? `rampart: ${error.message}` : error);
  return 1;
}
