import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { leaveShell } from "../testkit/programs/environment.ts";
import { optionsOf } from "../testkit/programs/options.ts";
import { lastingFolder } from "../testkit/temporary-folder.ts";
import { isAcceptable, isGate, type Outcome, outcomesVariable, tableOf } from "./outcomes.ts";

const here = import.meta.dirname;

leaveShell("interop");

/** What takes longest begins first, so that the other suites run beside it. */
const longest = [
  "kubernetes",
  "s3",
  "agent",
  "runtimes",
  "package",
  "pages",
  "outages",
  "verifiers",
  "places",
  "own-root",
  "foreign-tokens",
];

const place = (name: string): number =>
  longest.includes(name) ? longest.indexOf(name) : longest.length;

/** The folders beside this file with a `main.ts`, or the named ones among them. */
function suites(named: readonly string[]): string[] {
  const folders = readdirSync(here).filter((name) => existsSync(join(here, name, "main.ts")));
  const unknown = named.filter((name) => !folders.includes(name));
  if (unknown.length > 0) throw new Error(`no suite ${unknown}; there are ${folders.join(", ")}`);
  const chosen = folders.filter((name) => named.length === 0 || named.includes(name));
  return chosen.toSorted((a, b) => place(a) - place(b) || a.localeCompare(b));
}

/** @returns The rows that the suite left for the table, and one with its exit code where that says something else. */
async function runSuite(name: string, folder: string): Promise<Outcome[]> {
  console.log(`=== ${name}`);
  const file = join(folder, `${name}.jsonl`);
  const begun = performance.now();
  const child = spawn(process.execPath, [join(here, name, "main.ts")], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, [outcomesVariable]: file },
  });
  const pass = (signal: NodeJS.Signals): boolean => child.kill(signal);
  process.on("SIGTERM", pass).on("SIGINT", pass);
  const printed = [child.stdout, child.stderr].map((output) => printLines(name, output));
  const [[exitCode]] = await Promise.all([once(child, "exit"), ...printed]);
  process.off("SIGTERM", pass).off("SIGINT", pass);
  console.log(`=== ${name} ended with ${exitCode} after ${secondsSince(begun)} s`);
  const outcomes = existsSync(file) ? parseOutcomes(await readFile(file, "utf8")) : [];
  // A suite that ends badly says so in a row, and one that ends well has rows.
  if (outcomes.length > 0 && (exitCode === 0) === outcomes.every(isAcceptable)) return outcomes;
  const faults = [`exit code ${exitCode} with ${outcomes.length} rows`];
  return [...outcomes, { client: "the whole suite", server: name, passed: 0, faults }];
}

/** Two suites print at the same time, so each line names its own. */
async function printLines(name: string, output: Readable): Promise<void> {
  for await (const line of createInterface(output)) console.log(`${name} | ${line}`);
}

function parseOutcomes(text: string): Outcome[] {
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Outcome);
}

const secondsSince = (begun: number): string => ((performance.now() - begun) / 1000).toFixed(0);

const folder = await lastingFolder();
const waiting = optionsOf("npm run test:interop -- [suite …]", suites);
const outcomesOf = new Map<string, Outcome[]>();

const running = new Map<string, Promise<void>>();

/** Runs a suite beside those that run. */
function begin(name: string): void {
  const ended = runSuite(name, folder).then((outcomes) => {
    outcomesOf.set(name, outcomes);
    running.delete(name);
  });
  running.set(name, ended);
}

/** What the cores have done since the machine began, in milliseconds. */
function coreTimes(): { readonly idle: number; readonly all: number } {
  const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
  const times = cpus().map((core) => core.times);
  return {
    idle: sum(times.map(({ idle }) => idle)),
    all: sum(times.flatMap((each) => Object.values(each))),
  };
}

// Most suites wait for certificates that run out: two share the machine, and two more what those leave idle.
for (let before = coreTimes(), isIdle = false; waiting.length > 0; ) {
  const name = running.size < (isIdle ? 4 : 2) ? waiting.shift() : undefined;
  if (name !== undefined) begin(name);
  if (name === undefined || running.size >= 2) await sleep(5000);
  const now = coreTimes();
  isIdle = now.idle - before.idle > (now.all - before.all) / 3;
  before = now;
}
await Promise.all(running.values());
const outcomes = [...outcomesOf.keys()].toSorted().flatMap((name) => outcomesOf.get(name) ?? []);
console.log(`\n${tableOf(outcomes)}\n`);
const missing = outcomes.filter((outcome) => outcome.missing !== undefined).length;
if (missing > 0) {
  console.log(`${missing} could not be run here${isGate ? ", which is a failure in CI" : ""}`);
}
process.exitCode = outcomes.every(isAcceptable) ? 0 : 1;
