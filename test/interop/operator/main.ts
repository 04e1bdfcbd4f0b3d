import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, report } from "../outcomes.ts";

/** What vitest's reporter `json` says of a file of tests. */
interface TestFile {
  readonly name: string;
  readonly message: string;
  readonly assertionResults: readonly {
    readonly status: string;
    readonly fullName: string;
    readonly ancestorTitles: readonly string[];
  }[];
}

/** What was played of a file, and each part of it that vitest has skipped. */
function outcomesOf({ name, message, assertionResults: tests }: TestFile): Outcome[] {
  const client = basename(name, ".test.ts");
  const server = "the operator's verbs";
  const run = Map.groupBy(tests, ({ status }) => status);
  const faults = (run.get("failed") ?? []).map(({ fullName }) => fullName);
  const passed = run.get("passed")?.length ?? 0;
  const untold = faults.length === 0 && message !== "" ? [message] : [];
  const skipped = new Set(
    run.get("skipped")?.map(({ ancestorTitles }) => ancestorTitles.join(" ")),
  );
  const played = { client, server, passed, faults: [...faults, ...untold] };
  return [
    ...(skipped.size > 0 && played.faults.length === 0 && passed === 0 ? [] : [played]),
    ...[...skipped].map((part) => ({
      client: `${client}: ${part}`,
      server,
      passed: 0,
      faults: [],
      notPlayed: "a program that it needs is not on this machine",
    })),
  ];
}

/** Runs the operator's verbs as programs, with wrangler. They are too slow for `npm test`. */
const results = join(await lastingFolder(), "results.json");
const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${results}`];
const { status } = spawnSync(
  process.execPath,
  ["node_modules/vitest/vitest.mjs", "run", "--project", "operator", ...reporters],
  { stdio: "inherit" },
);
const { testResults }: { readonly testResults: readonly TestFile[] } = JSON.parse(
  await readFile(results, "utf8"),
);
report(testResults.flatMap(outcomesOf));
// Vitest may fail without a test that did.
process.exitCode ||= status ?? 1;
