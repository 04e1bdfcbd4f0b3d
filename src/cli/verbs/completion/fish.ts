import type { CompletedCommand, CompletedOption, Values } from "./completed-command.ts";
import { placeOf } from "./shell-words.ts";

/** Completion for fish, with descriptions. */
export const fishScript = (commands: readonly CompletedCommand[]): string => `\
# Completion of rampart for fish, from: rampart completion fish
function __rampart_at
    set -l at ''
    for word in (commandline -opc)[2..]
        if contains -- "$at $word" ${places(commands)}
            set at "$at $word"
        end
    end
    test "$at" = "$argv[1]"
end

complete -c rampart -f
${commands.flatMap(linesOf).join("\n")}
`;

const places = (commands: readonly CompletedCommand[]): string =>
  commands.flatMap(({ words }) => (words.length > 0 ? [quoted(placeOf(words))] : [])).join(" ");

function linesOf({ words, commands, options, values }: CompletedCommand): readonly string[] {
  const at = `complete -c rampart -n ${quoted(`__rampart_at ${quoted(placeOf(words))}`)}`;
  const argument = valuesFlag(values);
  return [
    ...commands.map(([name, description]) => `${at} -a ${name} -d ${quoted(description)}`),
    ...options.map((option) => `${at} ${optionFlags(option)}`),
    ...(argument === "" ? [] : [`${at} ${argument}`]),
  ];
}

function optionFlags({ spellings, description, values }: CompletedOption): string {
  const names = spellings.map((spelling) =>
    spelling.startsWith("--") ? `-l ${spelling.slice(2)}` : `-s ${spelling.slice(1)}`,
  );
  const value = values === undefined ? [] : [values === "files" ? "-r" : "-x", valuesFlag(values)];
  return [...names, ...value, "-d", quoted(description)].filter((word) => word !== "").join(" ");
}

function valuesFlag(values: Values): string {
  if (values === "files") return "-F";
  if (values === "folders") return "-a '(__fish_complete_directories)'";
  return values === "nothing" ? "" : `-a ${quoted(values.join(" "))}`;
}

/** A text as one word of fish. */
const quoted = (text: string): string =>
  `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
