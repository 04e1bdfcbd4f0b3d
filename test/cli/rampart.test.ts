import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { rampart, typedWords } from "../../src/cli/rampart.ts";
import { build } from "../../src/foundation/build.ts";
import { MemoryTerminal } from "../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

/** What the program prints for these words; its help and its version end it. */
async function printed(...typed: readonly string[]): Promise<string> {
  const terminal = new MemoryTerminal();
  const words = typedWords(typed);
  const program = await rampart(words[0] ?? "", terminal);
  await expect(program.parseAsync(words, { from: "user" })).rejects.toMatchObject({ exitCode: 0 });
  return terminal.printed;
}

test("help of a verb is the page that the verb itself shows", async () => {
  const page = await printed("help", "authority", "list");
  expect(page).toMatch(/^Usage: rampart authority list /);
  expect(page).toBe(await printed("authority", "list", "--help"));
  expect(await printed("help")).toMatch(/^Usage: rampart /);
});

test("version is shown as a word, too", async () => {
  expect(await printed("version")).toBe(`${build}\n`);
});

test.each([
  ["serve", ["serve"]],
  ["gateway", ["gateway"]],
  ["agent", ["agent", "run"]],
])("%s prints the unit of deploy/ for systemd", async (noun, words) => {
  const terminal = new MemoryTerminal();
  const program = await rampart(noun, terminal);
  await program.parseAsync([...words, "--unit"], { from: "user" });
  expect(terminal.printed).toBe(readFileSync(`deploy/rampart-${noun}.service`, "utf8"));
});

test.each(["serve", "gateway", "distribute", "signer"])(
  "%s without its file says how to name one",
  async (noun) => {
    const program = await rampart(noun, new MemoryTerminal());
    const file = `${await temporaryFolder()}/none.toml`;
    const running = program.parseAsync([noun, "-c", file], { from: "user" });
    await expect(running).rejects.toThrow(
      `${file} does not exist: name the configuration with --config`,
    );
  },
);
