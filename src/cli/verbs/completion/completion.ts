import { Argument, Command } from "commander";
import type { Terminal } from "../../terminal/terminal.ts";
import {
  type CompletedCommand,
  type CompletedOption,
  completedCommands,
  type Values,
} from "./completed-command.ts";

/** @param program The whole command, whose words are completed. */
export function completionCommand(terminal: Terminal, program: () => Promise<Command>): Command {
  return new Command("completion")
    .addArgument(
      new Argument("<shell>", "the shell that reads it").choices([
        "bash",
        "zsh",
        "fish",
      ] satisfies Shell[]),
    )
    .description("print the script by which a shell completes commands, options and files")
    .addHelpText(
      "after",
      `
To have it in every new shell:
  bash  rampart completion bash > ~/.local/share/bash-completion/completions/rampart
  zsh   rampart completion zsh > "\${fpath[1]}/_rampart"
  fish  rampart completion fish > ~/.config/fish/completions/rampart.fish`,
    )
    .action(async (shell: Shell) => {
      terminal.print(scripts[shell](completedCommands(await program())).trimEnd());
    });
}

/** Completion for bash 3.2 and newer. */
export const bashScript = (commands: readonly CompletedCommand[]): string => `\
# Completion of rampart for bash, from: rampart completion bash
_rampart() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} at= words= i IFS=$'\\n'
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${placesPattern(commands)}) at="$at \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at $prev" in
${valueBranches(commands, bashValues)}
  esac
  case "$at" in
${commands.map(bashBranch).join("\n")}
  esac
}

_rampart_words() {
  COMPREPLY+=($(compgen -W "$1" -- "$cur"))
}

_rampart_files() {
  compopt -o filenames 2> /dev/null
  COMPREPLY+=($(compgen "$1" -- "$cur"))
}

complete -F _rampart rampart
`;

function bashValues(values: Values): string {
  if (values === "files") return "_rampart_files -f";
  if (values === "folders") return "_rampart_files -d";
  return values === "nothing" ? ":" : wordsAct(values);
}

/** bash splits the words by IFS, which is a line feed here. */
const wordsAct = (words: readonly string[]): string => `_rampart_words $'${words.join("\\n")}'`;

function bashBranch({ words, commands, options, values }: CompletedCommand): string {
  const spellings = options.flatMap((option) => option.spellings);
  const acts = [wordsAct([...commands.map(([name]) => name), ...spellings]), bashValues(values)];
  return `    ${quoted(placeOf(words))}) ${acts.filter((act) => act !== ":").join("; ")} ;;`;
}

export const zshScript = (commands: readonly CompletedCommand[]): string => `\
#compdef rampart
# Completion of rampart for zsh, from: rampart completion zsh
_rampart() {
  local at= word
  local -a candidates
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
      (${placesPattern(commands)}) at="$at $word" ;;
    esac
  done
  case "$at \${words[CURRENT-1]}" in
${valueBranches(commands, zshValues).replaceAll(/^ {4}/gm, "    (")}
  esac
  case "$at" in
${commands.map(zshBranch).join("\n")}
  esac
  _describe -o rampart candidates
}

if [ "$funcstack[1]" = _rampart ]; then _rampart "$@"; else compdef _rampart rampart; fi
`;

function zshValues(values: Values): string {
  if (values === "files") return "_files";
  if (values === "folders") return "_files -/";
  return values === "nothing" ? ":" : `compadd -- ${values.map(quoted).join(" ")}`;
}

function zshBranch({ words, commands, options, values }: CompletedCommand): string {
  const described = [
    ...commands,
    ...options.flatMap(({ spellings, description }) =>
      spellings.map((spelling) => [spelling, description] as const),
    ),
  ];
  const candidates = described.map(([name, description]) => quoted(`${name}:${description}`));
  const acts = [`candidates=(${candidates.join(" ")})`, zshValues(values)];
  return `    (${quoted(placeOf(words))}) ${acts.filter((act) => act !== ":").join("; ")} ;;`;
}

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
  commands.flatMap(({ words }) => (words.length > 0 ? [fishQuoted(placeOf(words))] : [])).join(" ");

function linesOf({ words, commands, options, values }: CompletedCommand): readonly string[] {
  const at = `complete -c rampart -n ${fishQuoted(`__rampart_at ${fishQuoted(placeOf(words))}`)}`;
  const argument = valuesFlag(values);
  return [
    ...commands.map(([name, description]) => `${at} -a ${name} -d ${fishQuoted(description)}`),
    ...options.map((option) => `${at} ${optionFlags(option)}`),
    ...(argument === "" ? [] : [`${at} ${argument}`]),
  ];
}

function optionFlags({ spellings, description, values }: CompletedOption): string {
  const names = spellings.map((spelling) =>
    spelling.startsWith("--") ? `-l ${spelling.slice(2)}` : `-s ${spelling.slice(1)}`,
  );
  const value = values === undefined ? [] : [values === "files" ? "-r" : "-x", valuesFlag(values)];
  return [...names, ...value, "-d", fishQuoted(description)]
    .filter((word) => word !== "")
    .join(" ");
}

function valuesFlag(values: Values): string {
  if (values === "files") return "-F";
  if (values === "folders") return "-a '(__fish_complete_directories)'";
  return values === "nothing" ? "" : `-a ${fishQuoted(values.join(" "))}`;
}

const fishQuoted = (text: string): string =>
  `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

/** A shell that has completion for `rampart`. */
type Shell = keyof typeof scripts;

/** A text as one word of a POSIX shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Where a command is, as the scripts write it: a blank before each word. */
const placeOf = (words: readonly string[]): string => words.map((word) => ` ${word}`).join("");

/** The options that take values, at each command that has them. */
export const valuedOptions = (commands: readonly CompletedCommand[]) =>
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
function valueBranches(
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
const placesPattern = (commands: readonly CompletedCommand[]): string =>
  patternOf(commands.filter(({ words }) => words.length > 0).map(({ words }) => placeOf(words)));
