/** Types `npm start` in this clone, and Ctrl-C when it has shown a certificate, as the README's reader does. */

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { startDevelopment } from "./testkit/programs/npm-start.ts";

const { lines, interrupt } = await startDevelopment(process.cwd());
const commandLines = globSync("/proc/[0-9]*/cmdline").map(textOf);
assert.equal(await interrupt(), 0);
console.log(lines.join("\n"));
assert.match(lines.join("\n"), /^The first certificate/m);
assert.match(lines.join("\n"), /no process is left/);
// Everybody on the machine reads command lines.
const [, token = ""] = /^export RAMPART_LOG_TOKEN=(\w+)$/m.exec(lines.join("\n")) ?? [];
assert.notEqual(token, "");
assert(!commandLines.some((words) => words.includes(token)), "a command line has the token");
for (const port of [8787, 8788]) await assert.rejects(fetch(`http://127.0.0.1:${port}`));

/** What a file holds; nothing of one that has gone, as that of a process that has ended. */
function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
