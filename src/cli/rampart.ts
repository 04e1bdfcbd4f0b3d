import { Command } from "commander";
import { exitCodesHelp } from "./terminal/exit-codes.ts";
import { version } from "./version.ts";

type Noun = (clock: () => Date) => Promise<Command>;

/** The nouns. Each is imported only when it is needed, because it imports much that the others do not need. */
const nouns: ReadonlyMap<string, Noun> = new Map<string, Noun>([
  ["init", async (clock) => (await import("./verbs/init/init.ts")).initCommand(clock)],
  [
    "authority",
    async (clock) => (await import("./verbs/authority/authority.ts")).authorityCommand(clock),
  ],
  ["root", async (clock) => (await import("./verbs/root/root.ts")).rootCommand(clock)],
  ["deny", async (clock) => (await import("./verbs/deny/deny.ts")).denyCommand(clock)],
  [
    "certificate",
    async (clock) => (await import("./verbs/certificate/certificate.ts")).certificateCommand(clock),
  ],
  ["cluster", async (clock) => (await import("./verbs/cluster/cluster.ts")).clusterCommand(clock)],
  ["doctor", async (clock) => (await import("./verbs/doctor/doctor.ts")).doctorCommand(clock)],
  ["kek", async (clock) => (await import("./verbs/authority/kek.ts")).kekCommand(clock)],
  ["log", async (clock) => (await import("./verbs/log/log.ts")).logCommand(clock)],
  ["serve", async (clock) => (await import("./verbs/run/serve.ts")).serveCommand(clock)],
  ["gateway", async (clock) => (await import("./verbs/run/gateway.ts")).gatewayCommand(clock)],
  ["agent", async () => (await import("./verbs/run/agent.ts")).agentCommand()],
  [
    "distribute",
    async (clock) => (await import("./verbs/run/distribute.ts")).distributeCommand(clock),
  ],
  ["signer", async (clock) => (await import("./verbs/run/signer.ts")).signerCommand(clock)],
  [
    "completion",
    async (clock) =>
      (await import("./verbs/completion/completion.ts")).completionCommand(() =>
        rampart("", clock),
      ),
  ],
]);

/** The command `rampart <noun> <verb>`: with the given noun, or with every noun for the help. */
export async function rampart(noun: string, clock: () => Date): Promise<Command> {
  const asked = nouns.get(noun);
  const program = new Command("rampart")
    .description("The certificate authority of a service mesh, without a server to run.")
    .version(version, "-V, --version", "show the version")
    .showHelpAfterError("(--help shows the commands and options)")
    .addHelpText("after", exitCodesHelp)
    .exitOverride();
  for (const load of asked ? [asked] : loadedFor(noun)) program.addCommand(await load(clock));
  return inherit(program);
}

/** The help lists every noun. The version needs none. */
const loadedFor = (option: string): Iterable<Noun> =>
  /^(?:--version|-V)$/.test(option) ? [] : nouns.values();

/** Copies the settings to subcommands, which were built on their own. */
function inherit(parent: Command): Command {
  for (const child of parent.commands) inherit(child.copyInheritedSettings(parent));
  return parent;
}
