import { Argument, Command } from "commander";
import type { Terminal } from "../../terminal/terminal.ts";
import { bashScript } from "./bash.ts";
import { completedCommands } from "./completed-command.ts";
import { fishScript } from "./fish.ts";
import { zshScript } from "./zsh.ts";

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

/** A shell that has completion for `rampart`. */
type Shell = keyof typeof scripts;

/** @param program The whole command, whose words are completed. */
export function completionCommand(terminal: Terminal, program: () => Promise<Command>): Command {
  return new Command("completion")
    .addArgument(new Argument("<shell>", "the shell that reads it").choices(Object.keys(scripts)))
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
