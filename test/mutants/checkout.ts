import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import * as z from "zod";
import { run } from "../testkit/programs/child-process.ts";
import { type Mutant, plant } from "./mutants.ts";

const root = join(import.meta.dirname, "../..");

const reportForm = z.object({
  success: z.boolean(),
  numPassedTests: z.number(),
  testResults: z.array(
    z.object({
      name: z.string(),
      message: z.optional(z.string()),
      assertionResults: z.array(z.object({ fullName: z.string(), status: z.string() })),
    }),
  ),
});

/** A fault may turn a loop into one that never ends nor yields, where no limit of a test is seen. */
const timeoutSeconds = 180;

/** What the tests said: the name of the first that failed, or how many passed. */
type Outcome =
  | { readonly failed: string }
  | { readonly failed: undefined; readonly passed: number };

/** A copy of this checkout in which faults are planted, one at a time. */
export class Checkout {
  readonly #folder = mkdtempSync(join(tmpdir(), "rampart-mutants-"));

  constructor() {
    // Some tests start programs as another user.
    chmodSync(this.#folder, 0o755);
    const listed = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "-z"], {
      cwd: root,
      encoding: "utf8",
    });
    for (const file of listed.split("\0").filter((name) => name !== "")) {
      cpSync(join(root, file), join(this.#folder, file), { recursive: true });
    }
    symlinkSync(join(root, "node_modules"), join(this.#folder, "node_modules"));
    // A fault may keep a test waiting for what never comes.
    const limit = join(this.#folder, "test/testkit/time/hang-limit.ts");
    const usual = readFileSync(limit, "utf8");
    writeFileSync(limit, usual.replace("300_000", "60_000"));
  }

  /** Runs the mutant's tests with its fault in place, and takes the fault out again. */
  async outcomeWith(mutant: Mutant): Promise<Outcome> {
    const path = join(this.#folder, mutant.file);
    const whole = readFileSync(path, "utf8");
    writeFileSync(path, plant(mutant, whole));
    try {
      return await this.outcome(mutant);
    } finally {
      writeFileSync(path, whole);
    }
  }

  /** Runs tests on the code as it is. */
  async outcome({ project = "node", test }: Pick<Mutant, "project" | "test">): Promise<Outcome> {
    const file = join(dirname(this.#folder), `${this.#folder.split("/").at(-1)}.json`);
    const words = ["run", "--bail", "1", "--project", project, "--reporter", "json"];
    const vitest = join(root, "node_modules/vitest/vitest.mjs");
    const values = [vitest, ...words, "--outputFile", file, ...test.split(" ")];
    const limits = { folder: this.#folder, isGroup: true, timeoutSeconds };
    const { signal } = await run(process.execPath, values, limits);
    if (signal === "SIGKILL") return { failed: "does not end" };
    try {
      return outcomeIn(reportForm.parse(JSON.parse(readFileSync(file, "utf8"))));
    } finally {
      rmSync(file, { force: true });
    }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function outcomeIn({ success, numPassedTests, testResults }: z.output<typeof reportForm>): Outcome {
  if (success) return { failed: undefined, passed: numPassedTests };
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
  const first = tests.find(({ status }) => status === "failed");
  // A file that cannot even be loaded notices as well.
  return { failed: first?.fullName ?? "a whole file" };
}
