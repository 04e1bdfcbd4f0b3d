import { type Command, Option } from "commander";
import { OperatorError } from "../../foundation/errors.ts";

/** The exit codes of every verb, for scripts: a code never changes its meaning. */
export const exitCodes = { done: 0, failed: 1, usage: 2, attention: 3, broken: 4 } as const;

/** The name of an exit code. */
export type Outcome = keyof typeof exitCodes;

/** The meaning of each exit code, for `--help` and the reference. */
export const exitMeanings: Readonly<Record<Outcome, string>> = {
  done: "The verb did it, and nothing needs attention.",
  failed: "The verb did not do it, or not all of it. One sentence says why.",
  usage: "The command has a wrong word, option or value, and changed nothing.",
  attention: "The verb did it, and its answer needs a person.",
  broken: "The verb did it, and its answer is that something is broken.",
};

/** The two graded outcomes that a verb may have beside success and failure, each as a clause. */
export type GradedOutcomes = Partial<Record<"attention" | "broken", string>>;

/** Tells in the help of a verb when it ends with a graded exit code. */
export function addExitCodes(command: Command, graded: GradedOutcomes): Command {
  const lines = Object.entries(graded).map(
    ([outcome, when]) => `  ${exitCodes[outcome as Outcome]}  ${when}`,
  );
  return command.addHelpText("after", ["\nExit codes of its own:", ...lines].join("\n"));
}

/** The table of exit codes for the help of the program. */
export const exitCodesHelp: string = [
  "\nExit codes:",
  ...Object.entries(exitMeanings).map(
    ([outcome, meaning]) => `  ${exitCodes[outcome as Outcome]}    ${meaning}`,
  ),
  "  130  SIGINT ended it; 143: SIGTERM did.",
].join("\n");

/** An error in what was typed, which is wrong whatever the CA holds. */
export const usageError = (message: string): OperatorError =>
  new OperatorError(message, { exitCode: exitCodes.usage });

/** The options that choose a store, for every verb that reads one. */
export function addDeploymentOptions(command: Command): Command {
  return addPlaceOptions(command).option(
    "--signer <name>",
    "the authorities of a named signer, instead of those without a name",
  );
}

/** The options that choose a CA with all its stores. */
export function addPlaceOptions(command: Command): Command {
  return command
    .option(
      "-c, --config <file>",
      "the CA's configuration (default: wrangler.toml or rampart.toml, whichever is there)",
    )
    .option("-e, --env <name>", "an environment of wrangler.toml")
    .addOption(
      new Option(
        "--remote",
        "the deployed namespace, through wrangler's login; KEK comes from the environment",
      ).conflicts("local"),
    )
    .addOption(new Option("--local", "the state on this machine (the default)"));
}

/** {@link addDeploymentOptions} for a verb that writes. */
export function addChangeOptions(command: Command): Command {
  return addDryRun(addDeploymentOptions(command));
}

/** {@link addPlaceOptions} for a verb that writes. */
export function addPlaceChangeOptions(command: Command): Command {
  return addDryRun(addPlaceOptions(command));
}

const addDryRun = (command: Command): Command =>
  command.option("--dry-run", "show what would be done, and write nothing");

/** The longest note for other operators, in characters. */
const maximumWhy = 200;

/** @throws OperatorError for a `--why` that has more than one line, or a long one. */
export function requireWhy(why: string | undefined): void {
  if (why === undefined || (why.length <= maximumWhy && !/\p{Cc}/u.test(why))) return;
  throw usageError(`--why must be one line of at most ${maximumWhy} characters`);
}
