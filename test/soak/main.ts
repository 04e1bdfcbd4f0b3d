import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { optionsOf, wholeNumber } from "../testkit/programs/options.ts";
import type { Program } from "./program.ts";
import { heading, minuteNotes, type Record, row, verdictOn } from "./report.ts";
import { startScene } from "./scene.ts";
import { fail, flood, forge, type Strangers, strangersAddress } from "./strangers.ts";
import type { Sample } from "./verdict.ts";
import { populate } from "./workloads.ts";

const usage = `npm run soak -- [options]

  --minutes M    how long (60)
  --workloads N  that renew meanwhile (1000)`;

const { minutes, workloads } = optionsOf(usage, (args) => {
  const options = {
    minutes: { type: "string", default: "60" },
    workloads: { type: "string", default: "1000" },
  } as const;
  const { values } = parseArgs({ args, options });
  return {
    minutes: wholeNumber("--minutes", values.minutes),
    workloads: wholeNumber("--workloads", values.workloads),
  };
});

const sampleMilliseconds = 10_000;
/** Compiled code and pools grow until then. */
const warmUpMilliseconds = 60_000;

async function sampled(program: Program, samples: Sample[], { isQuiet }: Strangers): Promise<void> {
  if (program.endedWith() !== undefined) return;
  samples.push({ ...(await program.sample()), isQuiet: isQuiet() });
}

const scene = await startScene();
const over = new AbortController();
process.once("SIGINT", () => over.abort()).once("SIGTERM", () => over.abort());
const ports = new Map([
  ["serve", scene.serve.port],
  ["gateway", scene.gateway.port],
]);
const strangers = flood(ports, over.signal);
const { tally, ended } = populate(workloads, scene.issuers, scene.wayOf, over.signal);
const strangerWay = () => ({ ...scene.wayOf(0), localAddress: strangersAddress });
const others = [
  forge(strangers, scene.issuers, strangerWay, over.signal),
  fail(scene.issuers, over.signal),
];
const samples = { serve: [], gateway: [] };
const note = minuteNotes(tally);
const record: Record = { samples, tally, strangers: strangers.tally };

console.log(`soak: ${workloads} workloads for ${minutes} minutes\n${heading}`);
const begun = Date.now();
let rows = 0;
while (Date.now() - begun < 60_000 * minutes && !over.signal.aborted) {
  await sleep(sampleMilliseconds, undefined, { signal: over.signal }).catch(() => {});
  await scene.refresh();
  const elapsed = Date.now() - begun;
  if (elapsed > warmUpMilliseconds) {
    await sampled(scene.serve, record.samples.serve, strangers);
    await sampled(scene.gateway, record.samples.gateway, strangers);
  }
  const minute = Math.floor(elapsed / 60_000);
  if (minute > rows) {
    rows = minute;
    console.log(row(minute, record, scene));
    console.log(note(strangers.lastFlood()));
  }
}
over.abort();
await Promise.all([ended, ...others]);
const verdict = verdictOn(record, minutes, scene);
const hanging = await scene.end();
console.log(verdict.text);
for (const name of hanging) console.log(`FAULT ${name} did not end when it was told to`);
process.exitCode = verdict.passed && hanging.length === 0 ? 0 : 1;
