import { execFile, spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { randomKek } from "../../testkit/configuration.ts";
import { isGate } from "../outcomes.ts";

const run = promisify(execFile);
const program = resolve("src/cli/main.ts");

/** Runs a program on a pseudo-terminal, types keys at each prompt, and prints its exit code and output. */
const driver = `
import json, os, pty, sys
prompts, command = json.loads(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
shown = ""
while True:
    try:
        octets = os.read(terminal, 4096)
    except OSError:
        break
    if not octets:
        break
    shown += octets.decode()
    if prompts and prompts[0][0] in shown:
        os.write(terminal, prompts.pop(0)[1].encode())
_, status = os.waitpid(pid, 0)
print(json.dumps({"code": os.waitstatus_to_exitcode(status), "shown": shown}))
`;

import { lastingFolder } from "../../testkit/temporary-folder.ts";

/** A text that a prompt shows, and the keys that somebody types then. */
type Typed = readonly [prompt: string, keys: string];

let folder: string;
let kek: string;

async function onTerminal(
  words: string,
  ...typed: readonly Typed[]
): Promise<{ readonly code: number; readonly shown: string }> {
  const { PATH } = process.env;
  const command = [process.execPath, program, ...words.split(" ")];
  const { stdout } = await run("python3", ["-c", driver, JSON.stringify(typed), ...command], {
    cwd: folder,
    env: { PATH, HOME: folder, KEK: kek, TERM: "xterm", NO_COLOR: "1" },
  });
  return JSON.parse(stdout);
}

// In a gate, a missing program fails.
const hasPython = isGate || spawnSync("python3", ["-c", "import pty"]).status === 0;
const timeoutMilliseconds = 120_000;

beforeAll(async () => {
  folder = await lastingFolder();
  kek = randomKek();
  await writeFile(
    join(folder, "rampart.toml"),
    `STORE_DIRECTORY = "store"\nPROPAGATION_INTERVAL = "0s"\n[[ISSUERS]]\nissuer = "https://issuer.test"\n`,
  );
  if (hasPython) expect((await onTerminal("authority init --yes")).code).toBe(0);
}, timeoutMilliseconds);

describe.skipIf(!hasPython)("on a terminal", () => {
  test.each([
    ["n\r", 1, /rampart: nothing was changed/],
    ["\x03", 1, /rampart: nothing was changed/],
    ["y\r", 0, /Now in the files in store:/],
  ])(
    "rotate shows who signs, and takes %j",
    async (keys, code, end) => {
      const ended = await onTerminal("authority rotate", ["[y/N]", keys]);
      expect(ended.shown).toMatch(/[0-9a-f]{12} signs (?:now|from)|No authority signs now/);
      expect(ended.shown).toMatch(/Rotate the files in store\? \[y\/N\]/);
      expect(ended.shown).toMatch(end);
      expect(ended.shown).not.toMatch(/^ +at /m);
      expect(ended.code).toBe(code);
    },
    timeoutMilliseconds,
  );

  test(
    "a passphrase is asked for twice, and never shown",
    async () => {
      const passphrase = "correct horse battery";
      const { code, shown } = await onTerminal(
        "authority export --out backup.age",
        ["Passphrase: ", `${passphrase}\r`],
        ["Repeat it: ", `${passphrase}\r`],
      );
      expect(shown).toContain("backup.age holds every authority");
      expect(shown).not.toContain(passphrase);
      expect(code).toBe(0);
    },
    timeoutMilliseconds,
  );

  test(
    "Ctrl-C at a passphrase writes nothing, and ends with a sentence",
    async () => {
      const { code, shown } = await onTerminal("authority export --out another.age", [
        "Passphrase: ",
        "\x03",
      ]);
      expect(shown).toContain("rampart: no passphrase was typed");
      expect(shown).not.toMatch(/^ +at /m);
      expect(code).toBe(1);
    },
    timeoutMilliseconds,
  );
});
