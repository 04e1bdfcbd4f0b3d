import { existsSync } from "node:fs";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { rampart } from "../../src/cli/rampart.ts";
import { MemoryTerminal } from "../testkit/programs/memory-terminal.ts";
import { filesAt, read, root } from "./page-files.ts";
import {
  asksAgain,
  blocksOf,
  clusterPages,
  inCluster,
  isTyped,
  needs,
  staysOpen,
  suites,
} from "./shell-blocks.ts";

const pages = filesAt(["*.md", "docs/**/*.md"]);
const blocks = pages.flatMap(blocksOf);
const shell = blocks.filter(({ language }) => language === "sh");
const where = ({ page, line }: { page: string; line: number }): string => `${page}:${line}`;

test("every block of shell is typed by a suite as it stands, or says what it needs", () => {
  expect(shell.length).toBeGreaterThan(60);
  const marks = ["", staysOpen, asksAgain, inCluster, ...Object.keys(needs)];
  expect(shell.filter(({ mark }) => !marks.includes(mark)).map(where)).toEqual([]);
  const left = shell.filter((block) => isTyped(block) && suites[block.page] === undefined);
  expect(left.map(where)).toEqual([]);
});

test("every page that a suite types is there, has blocks, and its suite exists", () => {
  for (const [page, suite] of Object.entries(suites)) {
    expect(blocks.filter((block) => block.page === page && isTyped(block)).length, page).not.toBe(
      0,
    );
    expect(existsSync(`${root}/test/interop/${suite}/main.ts`), suite).toBe(true);
  }
});

test("blocks for the cluster stand on the pages that the suite of Kubernetes reads", () => {
  const inClusters = shell.filter(({ mark }) => mark === inCluster).map(({ page }) => page);
  expect([...new Set(inClusters)].toSorted()).toEqual(clusterPages.toSorted());
});

test("commands stand in blocks of shell alone", () => {
  const command = /^(?:rampart|npm|npx|kubectl|helm|curl|openssl|docker|sudo) /m;
  const others = blocks.filter(({ language, text }) => language === "" && command.test(text));
  expect(others.map(where)).toEqual([]);
  expect(blocks.filter(({ language }) => /^(bash|shell|console)$/.test(language))).toEqual([]);
});

/** The words of each `rampart …` in a text, up to what ends the command. */
function commandsIn(text: string): string[][] {
  const joined = text.replaceAll(/\\\n\s*/g, " ").replaceAll(/'[^']*'|"[^"$]*"/g, "…");
  const calls = joined.matchAll(
    /(?:^|[|;&(]|-- |\b[A-Z_]+=\S*\s)[^\S\n]*(?:(?:npm run (?:-s )?|exec |sudo )?rampart (?:-- )?)([^\n|;&)`>#]*)/gm,
  );
  return [...calls].map(([, words = ""]) => words.trim().split(/\s+/));
}

/** What custody.md quotes as the names of formats. */
const formats = ["rampart statement", "rampart backup"];

const tree = await rampart("", new MemoryTerminal());

/** The faults of one command: an unknown verb, or options that it does not take. */
function faultsOf(words: readonly string[]): string[] {
  let command: Command = tree;
  const faults: string[] = [];
  for (const [i, word] of words.entries()) {
    if (word === "--") break;
    const flag = /^--?[a-z][\w-]*/i.exec(word)?.[0];
    const next = command.commands.find((each) => each.name() === word);
    if (flag !== undefined && !takes(command, flag)) faults.push(`${words.join(" ")}: ${flag}`);
    else if (next) command = next;
    else if (flag === undefined && command.commands.length > 0 && i < 2 && /^[a-z]/.test(word)) {
      faults.push(`${words.join(" ")}: ${word}`);
      break;
    }
  }
  return faults;
}

const takes = (command: Command, flag: string): boolean =>
  ["--help", "-h"].includes(flag) ||
  command.options.some(({ short, long }) => short === flag || long === flag);

describe.each(pages.filter((page) => page !== "CHANGELOG.md"))("%s", (page) => {
  test("names only verbs and options of rampart that exist", () => {
    const inBlocks = shell.filter((block) => block.page === page).map(({ text }) => text);
    const prose = read(page).replaceAll(/^ *```[\s\S]*?^ *```/gm, "");
    const quoted = [...prose.matchAll(/`(rampart [^`]+)`/g)].map(([, words = ""]) => words);
    const faults = [...inBlocks, ...quoted.filter((each) => !formats.includes(each))]
      .flatMap(commandsIn)
      .flatMap(faultsOf);
    expect(faults).toEqual([]);
  });
});

test("a verb or an option that does not exist would be found", () => {
  const text = "KEK=k npm run -s rampart -- authority rotate --now\nrampart authority turn | cat";
  expect(commandsIn(text).flatMap(faultsOf)).toEqual([
    "authority rotate --now: --now",
    "authority turn: turn",
  ]);
  expect(commandsIn("rampart agent run -- envoy --strange").flatMap(faultsOf)).toEqual([]);
});
