import { type Command, InvalidArgumentError, Option } from "commander";
import type * as z from "zod/mini";
import { OperatorError } from "../../foundation/errors.ts";
import { Duration, instant } from "../../foundation/text.ts";
import { addSeconds } from "../../pki/x509/validity.ts";

/** The exit codes of every verb, for scripts: a code never changes its meaning. */
export const exitCodes = { done: 0, failed: 1, usage: 2, attention: 3, broken: 4 } as const;

/** How a command ended, which decides its exit code. */
export type ExitName = keyof typeof exitCodes;

/** The meaning of each exit code, for `--help` and the reference. */
export const exitMeanings: Readonly<Record<ExitName, string>> = {
  done: "The verb did it, and nothing needs attention.",
  failed: "The verb did not do it, or not all of it. One sentence says why.",
  usage: "The command has a wrong word, option or value, and changed nothing.",
  attention: "The verb did it, and its answer needs a person.",
  broken: "The verb did it, and its answer is that something is broken.",
};

/** When a verb ends with `attention` or `broken`, as clauses for its help. */
export type GradedOutcomes = Partial<Record<"attention" | "broken", string>>;

/** Adds to the help of a verb when it ends with `attention` or `broken`; it sets no exit code. */
export function addExitCodes(command: Command, graded: GradedOutcomes): Command {
  const lines = Object.entries(graded).map(
    ([outcome, when]) => `  ${exitCodes[outcome as ExitName]}  ${when}`,
  );
  return command.addHelpText("after", ["\nExit codes of its own:", ...lines].join("\n"));
}

/** The table of exit codes for the help of the program. */
export const exitCodesHelp: string = [
  "\nExit codes:",
  ...Object.entries(exitMeanings).map(
    ([outcome, meaning]) => `  ${exitCodes[outcome as ExitName]}    ${meaning}`,
  ),
  "  130  SIGINT ended it; 143: SIGTERM did.",
].join("\n");

/** Makes an error about what was typed, with the exit code `usage`: it is wrong whatever the CA holds. */
export const usageError = (message: string): OperatorError =>
  new OperatorError(message, { exitCode: exitCodes.usage });

/** Makes a parser of an option or an argument by a schema. It throws InvalidArgumentError with the text `fault`. */
export const typedAs =
  <T>(form: z.ZodMiniType<T>, fault: string) =>
  (text: string): T => {
    const parsed = form.safeParse(text);
    if (parsed.success) return parsed.data;
    throw new InvalidArgumentError(fault);
  };

/** Parses a duration. @returns Whole seconds, which may be 0. @throws InvalidArgumentError for other text. */
export const typedSeconds = typedAs(
  Duration.seconds,
  "must be a duration in whole seconds, such as 24h or 90m",
);

/** Parses an interval. @returns Whole seconds, at least 1. @throws InvalidArgumentError for other text. */
export function typedInterval(text: string): number {
  const seconds = typedSeconds(text);
  if (seconds > 0) return seconds;
  throw new InvalidArgumentError("must be longer than 0s");
}

/** Makes the parser of a whole number from 1 to `most`, which throws InvalidArgumentError for other text. */
export const typedNumber =
  (most: number) =>
  (text: string): number => {
    const number = /^[1-9][0-9]*$/.test(text) ? Number(text) : 0;
    if (number > 0 && number <= most) return number;
    throw new InvalidArgumentError(`must be a number from 1 to ${most}`);
  };

/**
 * Makes the parser of an option that is an instant in RFC 3339, or how long ago it was, such as `30d`. It throws
 * InvalidArgumentError for other text.
 * @returns The instant in ISO 8601, UTC.
 */
export const typedInstant =
  (clock: () => Date) =>
  (text: string): string => {
    const [, days] = /^(\d{1,5})d$/.exec(text) ?? [];
    const ago = Duration.seconds.safeParse(days === undefined ? text : `${Number(days) * 24}h`);
    const time = ago.success ? addSeconds(clock(), -ago.data) : instant.safeParse(text).data;
    if (time) return time.toISOString();
    throw new InvalidArgumentError("must be an instant such as 2026-11-22T12:00:00Z, 30d or 24h");
  };

/** Adds the options that choose a store, for every verb that reads one. */
export function addDeploymentOptions(command: Command): Command {
  return addPlaceOptions(command).option(
    "--signer <name>",
    "the authorities of a named signer, instead of those without a name",
  );
}

/** Adds the options that choose a CA with all its stores. */
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

/** Adds the options that choose a store, and `--dry-run`, for a verb that writes. */
export function addChangeOptions(command: Command): Command {
  return addDryRun(addDeploymentOptions(command));
}

/** Adds the options that choose a CA, and `--dry-run`, for a verb that writes. */
export function addPlaceChangeOptions(command: Command): Command {
  return addDryRun(addPlaceOptions(command));
}

const addDryRun = (command: Command): Command =>
  command.option("--dry-run", "show what would be done, and write nothing");

/** The longest note for other operators, in characters. */
const maximumWhy = 200;

/** Requires that a `--why`, if there is one, is one line of at most 200 characters. @throws OperatorError otherwise. */
export function requireWhy(why: string | undefined): void {
  if (why === undefined || (why.length <= maximumWhy && !/\p{Cc}/u.test(why))) return;
  throw usageError(`--why must be one line of at most ${maximumWhy} characters`);
}
