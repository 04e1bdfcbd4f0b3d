import type { CompletedCommand, Values } from "./completed-command.ts";
import { placeOf, placesPattern, quoted, valueBranches } from "./shell-words.ts";

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
${valueBranches(commands, valuesAct)}
  esac
  case "$at" in
${commands.map(branch).join("\n")}
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

function valuesAct(values: Values): string {
  if (values === "files") return "_rampart_files -f";
  if (values === "folders") return "_rampart_files -d";
  return values === "nothing" ? ":" : wordsAct(values);
}

/** bash splits the words by IFS, which is a line feed here. */
const wordsAct = (words: readonly string[]): string => `_rampart_words $'${words.join("\\n")}'`;

function branch({ words, commands, options, values }: CompletedCommand): string {
  const spellings = options.flatMap((option) => option.spellings);
  const acts = [wordsAct([...commands.map(([name]) => name), ...spellings]), valuesAct(values)];
  return `    ${quoted(placeOf(words))}) ${acts.filter((act) => act !== ":").join("; ")} ;;`;
}
