import { spawnSync } from "node:child_process";

/** The operator's verbs as programs of their own, with wrangler under them: too slow to go with every test. */
const { status } = spawnSync(
  process.execPath,
  ["node_modules/vitest/vitest.mjs", "run", "--project", "operator"],
  { stdio: "inherit" },
);
process.exitCode = status ?? 1;
