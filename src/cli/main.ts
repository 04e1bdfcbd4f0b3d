#!/usr/bin/env node
import { Command, CommanderError } from "commander";
import { OperatorError } from "../foundation/operator-error.ts";
import { failuresOf } from "./terminal/operator-error.ts";

const clock = (): Date => new Date();

/** The nouns. Each is imported only when it is needed, because it imports much that the others do not need. */
const nouns: ReadonlyMap<string, () => Promise<Command>> = new Map([
  ["authority", async () => (await import("./authority/authority.ts")).authorityCommand(clock)],
  ["root", async () => (await import("./root/root.ts")).rootCommand(clock)],
  ["deny", async () => (await import("./deny/deny.ts")).denyCommand(clock)],
  ["cluster", async () => (await import("./cluster/cluster.ts")).clusterCommand(clock)],
  ["kek", async () => (await import("./authority/kek.ts")).kekCommand(clock)],
  ["log", async () => (await import("./log/log.ts")).logCommand(clock)],
  ["serve", async () => (await import("./run/serve.ts")).serveCommand(clock)],
  ["gateway", async () => (await import("./run/gateway.ts")).gatewayCommand(clock)],
  ["agent", async () => (await import("./run/agent.ts")).agentCommand()],
  ["distribute", async () => (await import("./run/distribute.ts")).distributeCommand(clock)],
  ["signer", async () => (await import("./run/signer.ts")).signerCommand(clock)],
]);

/** The command `rampart <noun> <verb>`: with the given noun, or with every noun for the help. */
async function rampart(noun: string): Promise<Command> {
  const asked = nouns.get(noun);
  const program = new Command("rampart")
    .description("The certificate authority of a service mesh, without a server to run.")
    .showHelpAfterError("(--help shows the commands and options)")
    .exitOverride();
  for (const load of asked ? [asked] : nouns.values()) program.addCommand(await load());
  return inherit(program);
}

/** Copies the settings to subcommands, which were built on their own. */
function inherit(parent: Command): Command {
  for (const child of parent.commands) inherit(child.copyInheritedSettings(parent));
  return parent;
}

try {
  const [, , noun = ""] = process.argv;
  await (await rampart(noun)).parseAsync();
} catch (error) {
  process.exitCode = Math.max(...failuresOf(error).map(exitCodeOf));
}

/** Commander prints its own errors. An OperatorError is shown as a sentence, a defect with its stack. */
function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode;
  const isOperators = error instanceof OperatorError;
  console.error(isOperators ? `rampart: ${error.message}` : error);
  return isOperators ? error.exitCode : 1;
}
