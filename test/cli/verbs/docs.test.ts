import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { namedPages } from "../../../dev/package/named-pages.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";

const root = join(import.meta.dirname, "../../..");

async function docs(...words: readonly string[]) {
  const terminal = await MemoryTerminal.ran(["docs", ...words]);
  return { code: terminal.exitCode, printed: terminal.printed, said: terminal.said };
}

test("every page that a program names is printed by its name, and no other name is one", async () => {
  const named = await namedPages();
  expect(named.size).toBeGreaterThan(10);
  const { printed: list } = await docs();
  for (const [name, text] of named) {
    expect(list.split("\n")).toContain(name);
    expect((await docs(name)).printed.trimEnd()).toBe(text.trimEnd());
  }
  expect(await docs("nothing")).toEqual({
    code: 2,
    printed: "",
    said: 'rampart: no page "nothing" is here: `rampart docs` lists the pages\n',
  });
});

test("no text of a program names a page by its path in the repository", async () => {
  const found: string[] = [];
  for (const name of await readdir(join(root, "src"), { recursive: true })) {
    if (!/\.ts$/.test(name) || name.includes(".tsc/")) continue;
    const text = await readFile(join(root, "src", name), "utf8");
    const code = text.replaceAll(/\/\*.*?\*\/|^ *\/\/.*$/gms, "");
    if (/docs\/[a-z-]+\/[a-z0-9-]+\.md/.test(code)) found.push(name);
  }
  expect(found).toEqual([]);
});
