import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mutantLists, readMutants } from "../mutants/mutants.ts";
import { read, root } from "./page-files.ts";

const page = read("test/assurance.md");

const { scripts } = JSON.parse(read("package.json")) as { readonly scripts: object };
const meanings = new Set(mutantLists().flatMap((name) => readMutants(name).map((m) => m.meaning)));

/** A file or a command, with titles in that file; or what a planted fault would mean. */
const name = /`([^`]+)`((?:,? \*[^*]+\*)*)|"([^"]+)"/g;

/** The texts of a source, without its comments. A title is one of them, or a part of one. */
function textsOf(path: string): readonly string[] {
  const code = read(path).replaceAll(/^\s*(?:\/?\*|\/\/).*$/gm, "");
  return code.match(/"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g) ?? [];
}

function isCommand(command: string): boolean {
  const [, script = "", suite] = /^npm run (\S+)(?: (\S+))?$/.exec(command) ?? [];
  if (script !== "test:interop" || suite === undefined) return Object.hasOwn(scripts, script);
  return existsSync(join(root, "test/interop", suite, "main.ts"));
}

/** The names in a cell of the page that nothing has. */
function strangersIn(cell: string): readonly string[] {
  const strangers = [...cell.matchAll(name)].flatMap(([, code = "", titles = "", meaning]) => {
    if (meaning !== undefined) return meanings.has(meaning) ? [] : [meaning];
    if (code.startsWith("npm ")) return isCommand(code) ? [] : [code];
    if (!/^(?:test|bench)\/.+\.ts$/.test(code) || !existsSync(join(root, code))) return [code];
    const texts = textsOf(code);
    const named = [...titles.matchAll(/\*([^*]+)\*/g)].map(([, title = ""]) => title);
    return named.filter((title) => !texts.some((text) => text.includes(title)));
  });
  const rest = cell.replaceAll(name, "");
  return /[`*"]/.test(rest) ? [...strangers, rest] : strangers;
}

const [promises = ""] = page.split("## Small worlds");
const tables = [...promises.matchAll(/^\| (.+) \| (.+) \| (.+) \|$/gm)];
const rows = tables.filter(([, , broken = ""]) => !/^(?:-+|what could break it)$/.test(broken));

test("every promise of the assurance case has something that would notice", () => {
  expect(rows.length).toBeGreaterThan(40);
  const unnoticed = rows.filter(([, , , cell = ""]) => cell.match(name) === null);
  expect(unnoticed.map(([, promise]) => promise)).toEqual([]);
});

test("every name of the assurance case is that of a file, a title in it, a command or a planted fault", () => {
  expect(rows.flatMap(([, , , cell = ""]) => strangersIn(cell))).toEqual([]);
});

test("the assurance case has every attacker of the threat model", () => {
  const attackersIn = (text: string) =>
    [...text.matchAll(/^\| \*\*(.+?)\*\*/gm)].map(([, who = ""]) =>
      who.replace(/\[(.+?)\]\(.+?\)/g, "$1"),
    );
  const known = attackersIn(read("SECURITY.md"));
  expect(known.length).toBeGreaterThan(10);
  expect([...new Set(attackersIn(page))]).toEqual(known);
});

test.each([
  ["`test/pages/nowhere.test.ts`", "test/pages/nowhere.test.ts"],
  ["`test/pages/tables.test.ts` *a title that nobody wrote*", "a title that nobody wrote"],
  ["`test/pages/pages.test.ts`, *names only files that exist*, *and not this*", "and not this"],
  ["`npm run nothing`", "npm run nothing"],
  ["`npm run test:interop nowhere`", "npm run test:interop nowhere"],
  ['"nobody has planted this"', "nobody has planted this"],
  [
    "`test/pages/tables.test.ts` and *a title that stands alone*",
    " and *a title that stands alone*",
  ],
])("a wrong name is found: %s", (cell, stranger) => {
  expect(strangersIn(cell)).toEqual([stranger]);
});
