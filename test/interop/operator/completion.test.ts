import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { completionScripts } from "../../../src/cli/verbs/completion/completion.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { installRampart } from "./incident-page.ts";

let folder: string;

beforeEach(async () => {
  folder = await temporaryFolder();
  await mkdir(join(folder, "a store"));
  await writeFile(join(folder, "rampart.toml"), "");
  await installRampart(folder);
});

/** Runs a shell that finds this program, with the words behind its script. */
async function shellSays(
  shell: keyof typeof completionScripts,
  ...words: readonly string[]
): Promise<readonly string[]> {
  await writeFile(join(folder, "script"), completionScripts[shell]);
  const env = { PATH: `${folder}/bin:${process.env["PATH"]}`, HOME: folder };
  const printed = execFileSync(shell, words, { cwd: folder, encoding: "utf8", env });
  return printed.split("\n").filter((line) => line !== "");
}

/** What a word may become at the end of a command: a candidate of the program, a file, a folder, nothing. */
const completions = [
  ["authority rot", ["rotate"]],
  ["authority list --config ramp", ["rampart.toml"]],
  ["log follow --dir a", ["a store"]],
  ["nowhere zzz", []],
] as const;

const inBash = `source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rampart; printf '%s\\n' "\${COMPREPLY[@]}"`;

const shells = {
  bash: (line: string) => shellSays("bash", "-c", inBash, "bash", "rampart", ...line.split(" ")),
  fish: async (line: string) => {
    const words = ["--no-config", "-c", `source ./script; complete -C 'rampart ${line}'`];
    const found = (await shellSays("fish", ...words)).map((each) => each.split("\t")[0] ?? "");
    return found.map((word) => word.replace("\\", "").replace(/\/$/, ""));
  },
};

const hasShell = (shell: string): boolean => spawnSync(shell, ["-c", "true"]).status === 0;

for (const [shell, complete] of Object.entries(shells)) {
  describe.skipIf(!hasShell(shell))(shell, () => {
    test.each(completions)("completes rampart %s", async (line, words) => {
      expect(await complete(line)).toEqual([...words]);
    });
  });
}

describe.skipIf(!hasShell("zsh"))("zsh", () => {
  test("reads the script, and defines the completion", async () => {
    const act =
      "autoload -U compinit && compinit -D -u && source ./script && print $_comps[rampart]";
    expect(await shellSays("zsh", "-f", "-c", act)).toEqual(["_rampart"]);
  });
});
