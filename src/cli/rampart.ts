import { Command, CommanderError } from "commander";
import { build } from "../foundation/build.ts";
import { OperatorError } from "../foundation/errors.ts";
import { EnvironmentProxies } from "../program/http/proxies.ts";
import { CompliancePolicy } from "../program/tls-policy.ts";
import { exitCodes, exitCodesHelp } from "./terminal/command-line.ts";
import { failuresOf } from "./terminal/failures.ts";
import type { Terminal } from "./terminal/terminal.ts";

type Noun = () => Promise<(terminal: Terminal) => Command>;

/** The nouns. Each is imported only when it is needed, because it imports much that the others do not need. */
const nouns: ReadonlyMap<string, Noun> = new Map<string, Noun>([
  ["init", async () => (await import("./verbs/init/init.ts")).initCommand],
  ["authority", async () => (await import("./verbs/authority/authority.ts")).authorityCommand],
  ["root", async () => (await import("./verbs/root.ts")).rootCommand],
  ["policy", async () => (await import("./verbs/policy/policy.ts")).policyCommand],
  ["deny", async () => (await import("./verbs/deny.ts")).denyCommand],
  [
    "certificate",
    async () => (await import("./verbs/certificate/certificate.ts")).certificateCommand,
  ],
  ["cluster", async () => (await import("./verbs/cluster/cluster.ts")).clusterCommand],
  ["issuer", async () => (await import("./verbs/issuer/issuer.ts")).issuerCommand],
  ["doctor", async () => (await import("./verbs/doctor/doctor.ts")).doctorCommand],
  ["acceptance", async () => (await import("./verbs/acceptance/acceptance.ts")).acceptanceCommand],
  ["kek", async () => (await import("./verbs/kek.ts")).kekCommand],
  ["log", async () => (await import("./verbs/log/log.ts")).logCommand],
  ["serve", async () => (await import("./verbs/run/serve.ts")).serveCommand],
  ["gateway", async () => (await import("./verbs/run/following.ts")).gatewayCommand],
  ["agent", async () => (await import("./verbs/run/agent.ts")).agentCommand],
  ["distribute", async () => (await import("./verbs/run/following.ts")).distributeCommand],
  ["signer", async () => (await import("./verbs/run/following.ts")).signerCommand],
  ["docs", async () => (await import("./verbs/docs/docs.ts")).docsCommand],
  ["completion", async () => (await import("./verbs/completion/completion.ts")).completionCommand],
]);

/**
 * Builds the command `rampart` with the given noun; if there is no such noun, with all of them for the help, or with none
 * for `--version`.
 */
export async function rampart(noun: string, terminal: Terminal): Promise<Command> {
  const asked = nouns.get(noun);
  const program = new Command("rampart")
    .description("The certificate authority of a service mesh, without a server to run.")
    .version(build, "-V, --version", "show version and commit")
    .showHelpAfterError("(--help shows the commands and options)")
    .addHelpText("after", exitCodesHelp)
    .configureOutput({
      writeOut: (text) => terminal.print(text.replace(/\n$/, "")),
      writeErr: (text) => terminal.notice(text.replace(/\n$/, "")),
    })
    .exitOverride();
  for (const load of asked ? [asked] : loadedFor(noun))
    program.addCommand((await load())(terminal));
  return inherit(program);
}

/** Runs one command. It never rejects: the terminal prints a failure and gets its exit code. */
export async function runCommand(words: readonly string[], terminal: Terminal): Promise<void> {
  try {
    CompliancePolicy.follow(terminal.environment);
    EnvironmentProxies.prepare(terminal.environment);
    const [noun = "", ...others] = words;
    if (noun === "__complete") return await complete(others, terminal);
    await (await rampart(noun, terminal)).parseAsync([...words], { from: "user" });
  } catch (error) {
    terminal.exitWith(Math.max(...failuresOf(error).map((each) => exitCodeOf(each, terminal))));
  }
}

/** Prints the completions of the last word, one a line, for the completion script of a shell. */
async function complete(words: readonly string[], terminal: Terminal): Promise<void> {
  const { completionsOf } = await import("./verbs/completion/completion.ts");
  const [noun = ""] = words.slice(0, -1);
  for (const line of completionsOf(await rampart(noun, terminal), words)) terminal.print(line);
}

/**
 * The exit code of a failure. An OperatorError is printed as a sentence, a defect with its stack; Commander has printed
 * its own errors.
 */
function exitCodeOf(error: unknown, terminal: Terminal): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage;
  if (error instanceof OperatorError) {
    terminal.complain(error.message);
    return error.exitCode;
  }
  console.error(error);
  return exitCodes.failed;
}

/** Rewrites `help authority list` to `authority list --help`, and `version` to `--version`; other words stay. */
export function typedWords(words: readonly string[]): readonly string[] {
  const [first, ...others] = words;
  if (first === "help") return [...others, "--help"];
  return first === "version" && others.length === 0 ? ["--version"] : words;
}

/** The nouns to load if none was typed: all for the help, none for the version. */
const loadedFor = (option: string): Iterable<Noun> =>
  /^(?:--version|-V)$/.test(option) ? [] : nouns.values();

/** Copies the settings to subcommands, which were built on their own. */
function inherit(parent: Command): Command {
  for (const child of parent.commands) inherit(child.copyInheritedSettings(parent));
  return parent;
}
