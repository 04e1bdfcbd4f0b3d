/** Types `npm start` in this clone, and Ctrl-C when it has shown a certificate, as the README's reader does. */

import assert from "node:assert/strict";
import { startDevelopment } from "./testkit/programs/npm-start.ts";

const { lines, interrupt } = await startDevelopment(process.cwd());
console.log(lines.join("\n"));
assert.match(lines.join("\n"), /^The first certificate/m);
assert.equal(await interrupt(), 0);
assert.match(lines.join("\n"), /no process is left/);
for (const port of [8787, 8788]) await assert.rejects(fetch(`http://127.0.0.1:${port}`));
