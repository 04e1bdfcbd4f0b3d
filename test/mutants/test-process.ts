import { createVitest, type TestRunResult } from "vitest/node";

/** What the tests said: the name of the first that failed, or the files that have a test. */
export type Outcome =
  | { readonly failed: string }
  | { readonly failed: undefined; readonly files: readonly string[] };

/** Tests to run: paths of files or folders, by a space apart. */
export interface TestRequest {
  readonly project: "node" | "workerd";
  readonly test: string;
}

/**
 * A process in a checkout that runs the tests its parent asks for, and answers with their outcome. It serves one
 * project. Starting Vitest anew for each request would take longer than most tests do.
 */
const [project = "node"] = process.argv.slice(2);
const vitest = await createVitest("test", {
  watch: false,
  bail: 1,
  // A worker of its own for each file: one that lives on has the modules of an earlier fault.
  isolate: true,
  project: [project],
  reporters: [{}],
});

process.on("message", async ({ test }: TestRequest) => {
  const specifications = await vitest.globTestSpecifications(test.split(" "));
  const names = new Set(specifications.map(({ moduleId }) => moduleId));
  const result = await vitest.rerunTestSpecifications(specifications);
  // Vitest answers with the modules of earlier runs as well.
  const testModules = result.testModules.filter(({ moduleId }) => names.has(moduleId));
  process.send?.(outcomeOf({ ...result, testModules }));
});
process.on("disconnect", () => process.exit());

function outcomeOf({ testModules, unhandledErrors }: TestRunResult): Outcome {
  const failed = testModules
    .flatMap((module) => [...module.children.allTests("failed")])
    .map(({ fullName }) => fullName);
  // A file that cannot even be loaded notices as well.
  const isWhole = unhandledErrors.length === 0 && testModules.every((module) => module.ok());
  if (!isWhole || failed.length > 0) return { failed: failed[0] ?? "a whole file" };
  const played = testModules.filter((module) => !module.children.allTests("passed").next().done);
  return { failed: undefined, files: played.map((module) => module.relativeModuleId) };
}
