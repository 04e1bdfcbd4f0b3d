import type { Argument, Command, Option } from "commander";

/** The completion of a value: names of files or folders, one of some words, or nothing. */
export type Values = "files" | "folders" | "nothing" | readonly string[];

export interface CompletedOption {
  readonly spellings: readonly string[];
  readonly description: string;
  /** `undefined` for an option without a value. */
  readonly values: Values | undefined;
}

/** A command as a shell completes it. */
export interface CompletedCommand {
  /** Its words, such as `["authority", "list"]`; none for the program itself. */
  readonly words: readonly string[];
  readonly commands: readonly (readonly [name: string, description: string])[];
  readonly options: readonly CompletedOption[];
  /** The completion of its arguments. */
  readonly values: Values;
}

/** A command and all below it. */
export function completedCommands(
  command: Command,
  words: readonly string[] = [],
): readonly CompletedCommand[] {
  const options = command.createHelp().visibleOptions(command);
  const own: CompletedCommand = {
    words,
    commands: command.commands.map((child) => [child.name(), child.description()]),
    options: options.map(completedOption),
    values: valuesOf(command.registeredArguments),
  };
  const below = command.commands.map((child) => completedCommands(child, [...words, child.name()]));
  return [own, ...below.flat()];
}

const completedOption = (option: Option): CompletedOption => ({
  spellings: [option.short, option.long].filter((spelling) => spelling !== undefined),
  description: option.description,
  values:
    option.required || option.optional
      ? (option.argChoices ?? namedValues(option.flags))
      : undefined,
});

/** The values of all arguments, where a shell does not count them. */
function valuesOf(all: readonly Argument[]): Values {
  const choices = all.flatMap(({ argChoices = [] }) => argChoices);
  return choices.length > 0 ? choices : namedValues(all.map((each) => each.name()).join(" "));
}

/** The completion that the name of a value implies, such as `<file>` in the flags of an option. */
function namedValues(name: string): Values {
  if (/file|archive|chain|source|certificate|proof/.test(name)) return "files";
  return /folder/.test(name) ? "folders" : "nothing";
}
