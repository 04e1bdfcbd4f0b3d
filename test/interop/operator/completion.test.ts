import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { rampart } from "../../../src/cli/rampart.ts";
import { completedCommands } from "../../../src/cli/verbs/completion/completed-command.ts";
import { bashScript, fishScript, zshScript } from "../../../src/cli/verbs/completion/completion.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const { PATH } = process.env;
let folder: string;

const hasShell = (shell: string): boolean => spawnSync(shell, ["-c", "true"]).status === 0;

const commands = completedCommands(await rampart("", new MemoryTerminal()));
const scripts = {
  bash: bashScript(commands),
  zsh: zshScript(commands),
  fish: fishScript(commands),
} as const;

/** The script for a shell, in a file. */
async function scriptFile(shell: keyof typeof scripts): Promise<string> {
  const file = join(folder, `completion.${shell}`);
  await writeFile(file, scripts[shell]);
  return file;
}

beforeEach(async () => {
  folder = await temporaryFolder();
  await mkdir(join(folder, "a store"));
  await writeFile(join(folder, "rampart.toml"), "");
});

/** What a word may become at the end of a command: the words of a test, and what they complete to. */
const completions = [
  ["au", ["authority"]],
  ["authority rot", ["rotate"]],
  ["authority list --js", ["--json"]],
  ["authority taint abcd --root ", ["immediately", "with-last-leaf"]],
  ["authority list --config ramp", ["rampart.toml"]],
  ["authority import ramp", ["rampart.toml"]],
  ["log follow --dir a", ["a store"]],
  ["completion f", ["fish"]],
  ["authority rotate --zzz", []],
  ["nowhere zzz", []],
] as const;

describe.skipIf(!hasShell("bash"))("bash", () => {
  test.each(completions)("completes rampart %s", async (line, words) => {
    const file = await scriptFile("bash");
    const typed = ["rampart", ...line.split(" ")];
    const act = `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rampart; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const printed = execFileSync("bash", ["-c", act, file, ...typed], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(printed.split("\n").filter((word) => word !== "")).toEqual([...words]);
  });
});

describe.skipIf(!hasShell("fish"))("fish", () => {
  test.each(completions)("completes rampart %s", async (line, words) => {
    const file = await scriptFile("fish");
    const act = `source ${file}; complete -C 'rampart ${line}'`;
    const printed = execFileSync("fish", ["--no-config", "-c", act], {
      cwd: folder,
      encoding: "utf8",
      env: { PATH, HOME: folder },
    });
    const found = printed.split("\n").flatMap((each) => each.split("\t")[0] || []);
    expect(found.map((word) => word.replace("\\", "").replace(/\/$/, ""))).toEqual([...words]);
  });
});

describe.skipIf(!hasShell("zsh"))("zsh", () => {
  test("reads the script, and defines the completion", async () => {
    const file = await scriptFile("zsh");
    const act = `autoload -U compinit && compinit -D -u && source ${file} && print $_comps[rampart]`;
    const printed = execFileSync("zsh", ["-f", "-c", act], { encoding: "utf8", cwd: folder });
    expect(printed).toBe("_rampart\n");
  });
});
