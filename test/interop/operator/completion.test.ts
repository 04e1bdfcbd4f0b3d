import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { completionScripts } from "../../../src/cli/verbs/completion/completion.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

let folder: string;
/** Has the shells find this program. */
const environment = () => ({ PATH: `${folder}/bin:${process.env["PATH"]}`, HOME: folder });

const hasShell = (shell: string): boolean => spawnSync(shell, ["-c", "true"]).status === 0;

const main = join(import.meta.dirname, "../../../src/cli/main.ts");

/** The script for a shell, in a file. */
async function scriptFile(shell: keyof typeof completionScripts): Promise<string> {
  const file = join(folder, `completion.${shell}`);
  await writeFile(file, completionScripts[shell]);
  return file;
}

beforeEach(async () => {
  folder = await temporaryFolder();
  for (const each of ["a store", "bin"]) await mkdir(join(folder, each));
  await writeFile(join(folder, "rampart.toml"), "");
  const program = `#!/bin/sh\nexec "${process.execPath}" "${main}" "$@"\n`;
  await writeFile(join(folder, "bin/rampart"), program, { mode: 0o755 });
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
      env: environment(),
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
      env: environment(),
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
