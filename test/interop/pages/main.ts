import { globSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import {
  asksAgain,
  type Block,
  blocksOf,
  isCompared,
  isTyped,
  type Need,
  needs,
  staysOpen,
  suites,
} from "../../pages/shell-blocks.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, report } from "../outcomes.ts";
import { missingLine } from "./expectation.ts";
import * as scenes from "./scenes.ts";
import type { Terminal } from "./terminal.ts";

interface Reading {
  readonly scene: scenes.Scene;
  /** What each program that stays open prints when it is ready, in the page's order. */
  readonly until?: readonly RegExp[];
  /** A line of such a program that the page has the reader paste. */
  readonly paste?: RegExp;
  /** The headings whose blocks other readers type instead. */
  readonly skips?: readonly string[];
  /** What the scene has something for that stands in its place, by the mark of a block. */
  readonly has?: readonly Need[];
  /** Whether the reader types the blocks of those marks alone, on a page of another suite. */
  readonly isRest?: boolean;
}

const started = [/Ctrl-C ends everything/];

/** The headings of a page that moves a mesh, of which each reader follows one. */
const [onServe, onWorker] = ["`serve`", "A rehearsal with a Worker on this machine"];

/** The readers of each page: one, unless it has several ways. */
const readings: Readonly<Record<string, Reading | readonly Reading[]>> = {
  "README.md": { scene: scenes.clone, until: started },
  "CONTRIBUTING.md": { scene: scenes.checkout },
  "docs/tutorials/first-certificate.md": {
    scene: scenes.checkout,
    until: started,
    paste: /^export RAMPART_LOG_TOKEN=\w+$/m,
  },
  "docs/tutorials/worker.md": {
    scene: scenes.archiveWithAccount,
    until: started,
    has: ["needs-account"],
  },
  "docs/tutorials/agent-with-envoy.md": {
    scene: scenes.withEnvoy,
    until: [/Serving HTTP/, /"certificate-obtained"/, /"certificate-obtained"/],
  },
  "docs/tutorials/migrate-from-istiod.md": [
    { scene: scenes.istiodsMesh, skips: [onWorker] },
    { scene: scenes.istiodsMeshAndArchive, skips: [onServe], until: [/Ready on http/] },
  ],
  "docs/tutorials/two-roots.md": { scene: scenes.twoRoots },
  "docs/tutorials/serve-on-systemd.md": {
    scene: scenes.machine,
    until: [/"gRPC on /],
    has: ["needs-root"],
  },
  "docs/explanation/data-planes.md": { scene: scenes.twoDomains },
  "docs/how-to/back-up-and-restore.md": { scene: scenes.operator },
  "docs/how-to/console.md": { scene: scenes.operator },
  "docs/how-to/deny.md": { scene: scenes.operator },
  "docs/how-to/install.md": { scene: scenes.checkoutOfRoot, has: ["needs-root"] },
  "docs/how-to/issuance-log.md": { scene: scenes.loggedOperator, until: [/"listening"/] },
  "docs/how-to/jwt-svids.md": { scene: scenes.tokenOperator, until: [/openid-configuration/] },
  "docs/how-to/operate.md": { scene: scenes.operator },
  "docs/how-to/policy.md": { scene: scenes.ruledOperator },
  "docs/how-to/replace-the-kek.md": { scene: scenes.operator, has: ["needs-account"] },
  "docs/how-to/revocation.md": { scene: scenes.loggedOperator },
  "docs/how-to/rotate.md": { scene: scenes.operator },
  "docs/how-to/s3.md": { scene: scenes.operator },
  "docs/how-to/troubleshoot.md": { scene: scenes.operator },
  "docs/how-to/upgrade.md": { scene: scenes.operator },
  "docs/reference/agent.md": { scene: scenes.emptyFolder },
  "docs/reference/endpoints.md": { scene: scenes.operator },
  "docs/reference/serve.md": { scene: scenes.withGrpcurl },
  "docs/how-to/key-services.md": {
    scene: scenes.keyOperator,
    has: ["needs-account"],
    isRest: true,
  },
  "docs/how-to/own-root.md": {
    scene: scenes.checkoutWithEngine,
    has: ["needs-engine"],
    isRest: true,
  },
  "docs/how-to/reload.md": { scene: scenes.service, has: ["needs-root"], isRest: true },
  "docs/tutorials/serve-on-kubernetes.md": {
    scene: scenes.checkoutWithEngine,
    has: ["needs-engine"],
    isRest: true,
  },
};

/** Types the blocks of a page in their order. @returns How many; @throws Error with the line of the first fault. */
async function read(page: string, reading: Reading): Promise<number> {
  const { scene, until = [], paste, has = [], isRest = false } = reading;
  const mayType = (block: Block): boolean =>
    has.some((mark) => mark === block.mark) || (!isRest && isTyped(block));
  const folder = await lastingFolder();
  await using ends = new AsyncDisposableStack();
  const terminal = await scene(folder, ends);
  const awaited = [...until];
  const blocks = blocksFor(page, reading);
  let typed = 0;
  let printed = "";
  for (const [i, block] of blocks.entries()) {
    const before = blocks[i - 1];
    const isShown = isCompared(block) && before !== undefined && mayType(before);
    try {
      if (isShown) requireShown(block.text, printed);
      if (block.language !== "sh" || !mayType(block)) continue;
      if (block.mark === staysOpen) {
        printed = await terminal.leaveOpen(block.text, awaited.shift() ?? /./);
        // A how-to begins with variables of its reader's, which every terminal has.
        if (page.startsWith("docs/tutorials/")) await terminal.openAnother();
        const [line] = paste?.exec(printed) ?? [];
        if (line !== undefined) await terminal.type(line);
      } else if (block.mark === asksAgain) {
        printed = await ask(terminal, block.text, blocks[i + 1]?.text ?? "");
      } else printed = await terminal.type(block.text);
      typed++;
    } catch (error) {
      throw new Error(`line ${block.line}: ${error instanceof Error ? error.message : error}`);
    }
  }
  return typed;
}

/** Types a block up to thirty times, a second apart, until the page's answer has come. */
async function ask({ type }: Terminal, question: string, shown: string): Promise<string> {
  let printed = await type(question);
  for (let times = 1; times < 30 && missingLine(shown, printed) !== undefined; times++) {
    await sleep(1000);
    printed = await type(question);
  }
  return printed;
}

function blocksFor(page: string, { skips = [] }: Reading): readonly Block[] {
  const blocks = blocksOf(page);
  const unknown = skips.filter((skip) => !blocks.some(({ heading }) => heading === skip));
  if (unknown.length > 0) throw new Error(`no block is under ${unknown}`);
  return blocks.filter(({ heading }) => !skips.includes(heading));
}

function requireShown(shown: string, printed: string): void {
  const missing = missingLine(shown, printed);
  if (missing !== undefined) throw new Error(`"${missing}" did not come, but:\n${printed}`);
}

/** @throws Error if the page has no reader, or if each of them skips the same heading. */
function readersOf(page: string): readonly Reading[] {
  const readers = [readings[page] ?? []].flat();
  const [first] = readers;
  if (first === undefined) throw new Error("it has no scene");
  const left = first.skips?.filter((skip) => readers.every(({ skips }) => skips?.includes(skip)));
  if (left?.length) throw new Error(`nobody types what is under ${left}`);
  return readers;
}

const marksTypedOn = (page: string): readonly string[] =>
  [readings[page] ?? []].flat().flatMap(({ has = [] }) => has);

async function outcomeOf(page: string): Promise<Outcome> {
  const outcome = { client: page, server: "a shell" };
  const begun = performance.now();
  try {
    let passed = 0;
    for (const reading of readersOf(page)) passed += await read(page, reading);
    console.log(`pages: ok: ${page} (${Math.round(performance.now() - begun)} ms)`);
    return { ...outcome, passed, faults: [] };
  } catch (error) {
    const fault = error instanceof Error ? error.message : String(error);
    console.log(`pages: FAILED: ${page}: ${fault}`);
    return { ...outcome, passed: 0, faults: [fault] };
  }
}

/** The pages of this suite, or those whose path has one of the words behind the command. */
const words = process.argv.slice(2);
const typedHere = Object.keys(suites).filter((page) => suites[page] === "pages");
const pages = [...new Set([...typedHere, ...Object.keys(readings)])].filter(
  (page) => words.length === 0 || words.some((word) => page.includes(word)),
);
const outcomes: Outcome[] = [];
const reasons: Readonly<Record<string, string>> = needs;
/** The blocks that no suite types, on any page. */
const left: readonly Outcome[] =
  words.length > 0
    ? []
    : globSync(["*.md", "docs/**/*.md"])
        .toSorted()
        .flatMap(blocksOf)
        .filter((block) => block.language === "sh" && reasons[block.mark] !== undefined)
        .filter(({ page, mark }) => !marksTypedOn(page).includes(mark))
        .map(({ page, line, mark }) => ({
          client: `${page}:${line}`,
          server: "a shell",
          passed: 0,
          faults: [],
          notPlayed: `it needs ${reasons[mark]}`,
        }));
for (const page of pages) outcomes.push(await outcomeOf(page));
report([...outcomes, ...left]);
