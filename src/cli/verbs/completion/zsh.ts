import type { CompletedCommand, Values } from "./completed-command.ts";
import { placeOf, placesPattern, quoted, valueBranches } from "./shell-words.ts";

/** Completion for zsh, with descriptions. */
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
${valueBranches(commands, valuesAct).replaceAll(/^ {4}/gm, "    (")}
  esac
  case "$at" in
${commands.map(branch).join("\n")}
  esac
  _describe -o rampart candidates
}

if [ "$funcstack[1]" = _rampart ]; then _rampart "$@"; else compdef _rampart rampart; fi
`;

function valuesAct(values: Values): string {
  if (values === "files") return "_files";
  if (values === "folders") return "_files -/";
  return values === "nothing" ? ":" : `compadd -- ${values.map(quoted).join(" ")}`;
}

function branch({ words, commands, options, values }: CompletedCommand): string {
  const described = [
    ...commands,
    ...options.flatMap(({ spellings, description }) =>
      spellings.map((spelling) => [spelling, description] as const),
    ),
  ];
  const candidates = described.map(([name, description]) => quoted(`${name}:${description}`));
  const acts = [`candidates=(${candidates.join(" ")})`, valuesAct(values)];
  return `    (${quoted(placeOf(words))}) ${acts.filter((act) => act !== ":").join("; ")} ;;`;
}
