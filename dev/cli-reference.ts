import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import type { Command } from "commander";
import { rampart } from "../src/cli/rampart.ts";
import { type ExitName, exitCodes, exitMeanings } from "../src/cli/terminal/command-line.ts";
import { Terminal, usualWidth } from "../src/cli/terminal/terminal.ts";

const page = fileURLToPath(new URL("../docs/reference/cli.md", import.meta.url));

/** The reference of the command line: the help of every command, as the command prints it. */
export async function cliReference(): Promise<string> {
  const program = await rampart("", new Terminal(process, () => new Date(0)));
  const sections = program.commands.flatMap((noun) => sectionsOf(noun, ["rampart"]));
  return [introduction, ...sections].join("\n\n").concat("\n");
}

const outcomes = Object.entries(exitMeanings) as readonly [ExitName, string][];

const introduction = `<!-- Generated: \`npm run generate\` writes this page. -->
# The command line

\`rampart <noun> <verb> --help\` prints what stands here. [Operate a CA](../how-to/operate.md) says where to begin.
\`rampart completion bash\`, \`zsh\` or \`fish\` prints a script by which your shell completes all of it.

A verb prints its answer to the standard output. What it works on, what takes long, what it warns of and what to type
next go to the standard error stream; with \`--json\`, only to a terminal. Tables fit the terminal, and a value
that has no room stands in a line below its row. In a pipe or a file each row is one line with whole values, and
\`COLUMNS\` sets another width. \`NO_COLOR\`, \`FORCE_COLOR\` and \`TERM=dumb\` decide about colours.

## Exit codes

| code | meaning |
| --- | --- |
${outcomes.map(([outcome, meaning]) => `| ${exitCodes[outcome]} | ${meaning} |`).join("\n")}
| 130, 143 | SIGINT or SIGTERM ended the verb. |

Each verb that may end with ${exitCodes.attention} or ${exitCodes.broken} says below when it does. \`rampart agent run\` with a proxy ends with the code of the proxy.`;

function sectionsOf(command: Command, parents: readonly string[]): readonly string[] {
  const words = [...parents, command.name()];
  const heading = `${"#".repeat(words.length)} ${words.join(" ")}`;
  const own = `${heading}\n\n\`\`\`text\n${helpOf(command)}\n\`\`\``;
  return [own, ...command.commands.flatMap((child) => sectionsOf(child, words))];
}

function helpOf(command: Command): string {
  const written: string[] = [];
  command
    .configureHelp({ helpWidth: usualWidth })
    .configureOutput({ writeOut: (text) => written.push(text) })
    .outputHelp();
  return stripVTControlCharacters(written.join("")).trim();
}

if (import.meta.main) writeFileSync(page, await cliReference());
