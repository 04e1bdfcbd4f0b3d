import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Semaphore } from "../../../src/foundation/shared-work.ts";
import { pageWith, type Seen, type SeenRow } from "../../testkit/outages/page.ts";
import { type Row, rows } from "../../testkit/outages/rows.ts";
import { run } from "../../testkit/programs/child-process.ts";
import { type Outcome, report } from "../outcomes.ts";
import { fromDebian } from "../software.ts";
import { alertsOf } from "./alerts.ts";
import { createWorld, type Said, Scene, type World } from "./scene.ts";

const seenPath = join(import.meta.dirname, "../../testkit/outages/seen.json");
const pagePath = join(import.meta.dirname, "../../../docs/how-to/troubleshoot.md");

/** So many programs and verbs run at once that none waits long for a processor. */
const atOnce = new Semaphore(4);

/** A rotation and a look at the store begin each minute. */
const minuteMilliseconds = 62_000;

async function playRow(row: Row, world: World, promtool: string): Promise<SeenRow> {
  const scene = await atOnce.run(() => Scene.create(row, world));
  try {
    if (row.before) await scene.type(row.before);
    await atOnce.run(() => scene.start());
    const well = row.before === undefined ? await atOnce.run(() => wellMetrics(scene)) : "";
    if (row.during) await atOnce.run(() => scene.type(row.during ?? ""));
    await sleep(minuteMilliseconds);
    const broken = await scene.metrics();
    await sleep(minuteMilliseconds);
    const said = await atOnce.run(() => scene.said());
    const alerts = await alertsOf(promtool, scene.folder, [well, broken, said.metrics]);
    const seen = seenOf(row, said, alerts);
    return { ...seen, cured: await cured(scene, said) };
  } finally {
    await scene.end();
  }
}

/** Its metrics once it has begun; what breaks it may be in its configuration. */
async function wellMetrics(scene: Scene): Promise<string> {
  for (let looks = 0; looks < 40; looks++) {
    if ((await scene.readiness()).status === 200) break;
    await sleep(250);
  }
  return scene.metrics();
}

function seenOf(row: Row, said: Said, alerts: readonly string[]): Omit<SeenRow, "cured"> {
  const [, ready] = /^rampart_ready (\S+)$/m.exec(said.metrics) ?? [];
  return {
    name: row.name,
    status: said.status ?? null,
    reasons: said.reasons.map(masked),
    metric: ready ?? null,
    alerts,
    // A CA that is ready may have waited for its certificate at its start.
    events: said.events.filter(
      (event) => said.status !== 200 || event !== "serving-certificate-missing",
    ),
    doctor: { ...said.doctor, says: said.doctor.says.map(masked).map(withoutNumbers) },
    page: said.page ? { ...said.page, says: said.page.says.map(masked) } : null,
  };
}

/** Without what differs from run to run. */
const masked = (sentence: string): string =>
  sentence
    .replace(/\/\S*\/rampart-[A-Za-z0-9]{6}/g, "…")
    .replace(/\b[0-9a-f]{8}-[0-9a-f-]{27}\b/g, "…")
    .replace(/\b[0-9a-f]{40}\b/g, "…")
    .replace(/\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?/g, "…")
    .replace(/127\.0\.0\.1:\d+/g, "…");

const withoutNumbers = (sentence: string): string => sentence.replace(/\b[0-9a-f]{12}\b|\d+/g, "…");

/** Whether the advice, typed as written, ends what is wrong. */
async function cured(scene: Scene, { doctor }: Said): Promise<boolean | null> {
  const { cure, restarts } = scene.row;
  if (cure === undefined && !restarts) return null;
  if (cure !== undefined) await atOnce.run(() => scene.type(cure));
  if (restarts) {
    await scene.stop();
    await atOnce.run(() => scene.start());
  }
  for (let looks = 0; looks < 45; looks++) {
    const { status, reasons } = await scene.readiness();
    if (status === 200 && reasons.length === 0) break;
    await sleep(2000);
  }
  const [{ status, reasons }, after] = [
    await scene.readiness(),
    await atOnce.run(() => scene.doctor()),
  ];
  const left = after.findings.filter(
    (name) => doctor.findings.includes(name) && name !== "backup-old",
  );
  return status === 200 && reasons.length === 0 && (left.length === 0 || doctor.code === 0);
}

/** A green light in an outage, or a danger of which nobody says anything. */
function greenLights({ kind }: Row, seen: SeenRow): string[] {
  const { status, metric, alerts, doctor, page, reasons, events } = seen;
  if (kind === "danger") {
    const isTold = reasons.length + alerts.length + events.length + doctor.findings.length > 0;
    return isTold ? [] : ["nobody says anything"];
  }
  return [
    ...(status === 200 ? ["/readyz is 200"] : []),
    ...(metric === "1" ? ["rampart_ready is 1"] : []),
    ...(alerts.length === 0 ? ["no alert fires"] : []),
    ...(page?.ready ? ["the console says ready"] : []),
    ...(doctor.code === 0 ? ["the doctor finds nothing"] : []),
  ];
}

async function play(promtool: string): Promise<Outcome> {
  const named = process.argv.slice(2).filter((word) => !word.startsWith("--"));
  const chosen = rows.filter(({ name }) => named.length === 0 || named.includes(name));
  const world = await createWorld();
  const played = await Promise.all(
    chosen.map(async (row) => {
      const seen = await playRow(row, world, promtool).catch((error: unknown) => String(error));
      console.log(typeof seen === "string" ? `FAILED  ${row.name}: ${seen}` : JSON.stringify(seen));
      return { row, seen };
    }),
  );
  const seen = played.flatMap(({ seen }) => (typeof seen === "string" ? [] : [seen]));
  const faults = played.flatMap(({ row, seen }) =>
    typeof seen === "string"
      ? [`${row.name}: ${seen}`]
      : [
          ...greenLights(row, seen).map((fault) => `${row.name}: ${fault}`),
          ...(seen.cured === false ? [`${row.name}: the advice does not cure it`] : []),
        ],
  );
  const known: Seen = JSON.parse(await readFile(seenPath, "utf8"));
  if (process.argv.includes("--write")) {
    const all = rows.flatMap(
      ({ name }) => [...seen, ...known].find((each) => each.name === name) ?? [],
    );
    await writeFile(seenPath, `${JSON.stringify(all, undefined, 2)}\n`);
    await run("npx", ["biome", "format", "--write", seenPath]);
    await writeFile(pagePath, pageWith(all, await readFile(pagePath, "utf8")));
  } else faults.push(...changes(known, seen));
  return {
    client: "doctor, promtool",
    server: "serve",
    passed: seen.length - faults.length,
    faults,
  };
}

const changes = (before: Seen, now: Seen): string[] =>
  now.flatMap((seen) => {
    const known = before.find(({ name }) => name === seen.name);
    return JSON.stringify(known) === JSON.stringify(seen)
      ? []
      : [`${seen.name}: the page says otherwise: ${JSON.stringify(seen)}`];
  });

const promtool = await fromDebian("prometheus", "usr/bin/promtool");
const canMount = (await run("unshare", ["-m", "true"])).exitCode === 0;
const outcome = { client: "doctor, promtool", server: "serve", passed: 0, faults: [] };
report([
  "missing" in promtool
    ? { ...outcome, missing: promtool.missing }
    : canMount
      ? await play(promtool.program)
      : { ...outcome, missing: "this user may not mount a small disk" },
]);
