import { Command } from "commander";
import { usageError } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";

/** `rampart docs`: prints the pages of the documentation that messages name, or their names. */
export function docsCommand(terminal: Terminal): Command {
  return new Command("docs")
    .description("print a page of the documentation, or the names of those that are here")
    .argument("[page]", "its name, such as troubleshoot")
    .action(async (name?: string) => {
      const { pages } = await import("./pages.ts");
      if (name === undefined) return terminal.print([...pages.keys()].toSorted().join("\n"));
      const page = pages.get(name);
      if (page !== undefined) return terminal.print(page.trimEnd());
      throw usageError(`no page ${JSON.stringify(name)} is here: \`rampart docs\` lists the pages`);
    });
}
