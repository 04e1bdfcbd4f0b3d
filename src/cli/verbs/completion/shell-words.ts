import type { CompletedCommand, Values } from "./completed-command.ts";

/** A text as one word of a POSIX shell. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Where a command is, as the scripts write it: a blank before each word. */
export const placeOf = (words: readonly string[]): string =>
  words.map((word) => ` ${word}`).join("");

/** An option that takes values, at each command that has it. */
export interface ValuedOption {
  readonly place: string;
  readonly spelling: string;
  readonly values: Values;
}

export const valuedOptions = (commands: readonly CompletedCommand[]): readonly ValuedOption[] =>
  commands.flatMap(({ words, options }) =>
    options.flatMap(({ spellings, values }) =>
      values === undefined
        ? []
        : spellings.map((spelling) => ({ place: placeOf(words), spelling, values })),
    ),
  );

/** The pattern of a `case` that matches each of some texts. */
export const patternOf = (texts: readonly string[]): string => texts.map(quoted).join("|");

/** The branches of a `case` over option and place, one for each kind of value. */
export function valueBranches(
  commands: readonly CompletedCommand[],
  act: (values: Values) => string,
): string {
  const byValues = Map.groupBy(valuedOptions(commands), ({ values }) => `${values}`);
  return [...byValues.values()]
    .map((same) => {
      const pattern = patternOf(same.map(({ place, spelling }) => `${place} ${spelling}`));
      return `    ${pattern}) ${act(same[0]?.values ?? "nothing")}; return ;;`;
    })
    .join("\n");
}

/** The pattern of every command's place, which tells commands from other words. */
export const placesPattern = (commands: readonly CompletedCommand[]): string =>
  patternOf(commands.filter(({ words }) => words.length > 0).map(({ words }) => placeOf(words)));
