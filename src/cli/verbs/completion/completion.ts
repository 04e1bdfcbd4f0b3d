import { Argument, Command, type Option } from "commander";
import type { Terminal } from "../../terminal/terminal.ts";

/** `rampart completion`: prints the script by which a shell completes commands, options and files. */
export function completionCommand(terminal: Terminal): Command {
  return new Command("completion")
    .addArgument(
      new Argument("<shell>", "the shell that reads it").choices(Object.keys(completionScripts)),
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
    .action((shell: Shell) => terminal.print(completionScripts[shell].trimEnd()));
}

/** A line among the candidates, by which the shell itself completes names of files or folders as well. */
const [files, folders] = [":files", ":folders"] as const;

/**
 * Finds the completions of the last word.
 * @param words Those of a command line behind `rampart`; the last may be empty.
 * @returns Lines: candidates, most with a tab and a description; `:files` or `:folders` may be among them.
 */
export function completionsOf(program: Command, words: readonly string[]): readonly string[] {
  let command = program;
  let awaiting: Option | undefined;
  for (const word of words.slice(0, -1)) {
    if (!awaiting) command = command.commands.find((each) => each.name() === word) ?? command;
    awaiting = awaiting ? undefined : optionsOf(command).find((each) => takesValue(each, word));
  }
  const lines = awaiting
    ? valuesOf(awaiting.argChoices, awaiting.flags)
    : [
        ...command.commands.map((child) => lineOf(child.name(), child.description())),
        ...optionsOf(command).flatMap(({ short, long, description }) =>
          [short, long].flatMap((spelling) => (spelling ? [lineOf(spelling, description)] : [])),
        ),
        ...command.registeredArguments.flatMap((each) => valuesOf(each.argChoices, each.name())),
      ];
  const begun = words.at(-1) ?? "";
  return lines.filter((line) => line === files || line === folders || line.startsWith(begun));
}

/** The options of a command, without hidden ones. */
const optionsOf = (command: Command): readonly Option[] =>
  command.createHelp().visibleOptions(command);

const takesValue = ({ short, long, required, optional }: Option, word: string): boolean =>
  (required || optional) && (word === short || word === long);

/** Formats a candidate as one line. */
const lineOf = (candidate: string, description: string): string =>
  `${candidate}\t${description.replace(/\s+/g, " ")}`;

/** The candidates for a value: its choices, or what its name implies, such as `<file>`. */
function valuesOf(choices: readonly string[] | undefined, name: string): readonly string[] {
  if (choices) return choices;
  if (/file|archive|chain|source|certificate|proof/.test(name)) return [files];
  return /folder/.test(name) ? [folders] : [];
}

/** The scripts by shell. Each calls `rampart __complete` for the candidates, and has the shell show them. */
export const completionScripts = {
  /** For bash 3.2 and newer. */
  bash: `\
# Completion of rampart for bash, from: rampart completion bash
_rampart() {
  local line cur=\${COMP_WORDS[COMP_CWORD]} IFS=$'\\n'
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in
      ${files}) compopt -o filenames 2> /dev/null; COMPREPLY+=($(compgen -f -- "$cur")) ;;
      ${folders}) compopt -o filenames 2> /dev/null; COMPREPLY+=($(compgen -d -- "$cur")) ;;
      *) COMPREPLY+=("\${line%%$'\\t'*}") ;;
    esac
  done < <(rampart __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null)
}

complete -F _rampart rampart
`,
  zsh: `\
#compdef rampart
# Completion of rampart for zsh, from: rampart completion zsh
_rampart() {
  local line
  local -a candidates
  for line in "\${(@f)$(rampart __complete "\${(@)words[2,CURRENT]}" 2> /dev/null)}"; do
    case "$line" in
      (${files}) _files ;;
      (${folders}) _files -/ ;;
      (?*) candidates+=("\${\${line//:/\\\\:}/$'\\t'/:}") ;;
    esac
  done
  _describe -o rampart candidates
}

if [ "$funcstack[1]" = _rampart ]; then _rampart "$@"; else compdef _rampart rampart; fi
`,
  fish: `\
# Completion of rampart for fish, from: rampart completion fish
function __rampart_complete
    set -l words (commandline -opc)[2..] (commandline -ct)
    for line in (rampart __complete $words 2> /dev/null)
        switch $line
            case ${files}
                __fish_complete_path (commandline -ct)
            case ${folders}
                __fish_complete_directories (commandline -ct) ''
            case '*'
                echo $line
        end
    end
end

complete -c rampart -f -a '(__rampart_complete)'
`,
} as const;

/** A shell that has completion for `rampart`. */
type Shell = keyof typeof completionScripts;
