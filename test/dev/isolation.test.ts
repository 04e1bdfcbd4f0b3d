import { readFileSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { createEdgeWorker } from "../testkit/programs/edge-worker.ts";
import { isOfTests } from "../testkit/programs/environment.ts";

/** The variables that vitest itself sets, and Node for a process that it forks. */
const ofVitest = /^(VITEST.*|FORCE_TTY|NODE_ENV|TEST|DEV|PROD|MODE|SSR|BASE_URL|NODE_CHANNEL_.*)$/;

// As it was at the start of this process: tests that ran here before may have left theirs.
test.runIf(process.platform === "linux")(
  "a test starts without the variables of the shell, but for those on the list",
  () => {
    const variables = readFileSync("/proc/self/environ", "utf8").split("\0").filter(Boolean);
    const names = variables.map((variable) => variable.slice(0, variable.indexOf("=")));
    expect(names).toContain("VITEST");
    expect(names.filter((name) => !ofVitest.test(name) && !isOfTests(name))).toEqual([]);
  },
);

const worker = await createEdgeWorker({ vars: { KEK: "of the test" } });
afterAll(() => worker.close());

test("a Worker of a test has the test's settings, and none of a file beside wrangler.toml", async () => {
  await worker.listen();
  const { KEK, ...others } = await worker.getWorker().getEnv();
  expect(KEK).toBe("of the test");
  const written = ["AUTHORITIES", "CALLER_QUOTA", "ISSUER_QUOTA", "ISSUERS", "TRUST_DOMAIN"];
  expect(Object.keys(others).toSorted()).toEqual(written.toSorted());
});
