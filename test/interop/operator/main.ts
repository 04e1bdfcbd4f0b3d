import { spawnSync } from "node:child_process";

/** Runs the operator's verbs as programs, with wrangler. They are too slow for `npm test`. */
const { status } = spawnSync(
  process.execPath,
  ["node_modules/vitest/vitest.mjs", "run", "--project", "operator"],
  { stdio: "inherit" },
);
process.exitCode = status ?? 1;
