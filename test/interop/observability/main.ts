import { cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { collectorProgram } from "../log/collector.ts";
import { type Outcome, playAll, playRows, reportOutcomes } from "../outcome-table.ts";
import { fromDebian, required } from "../software.ts";
import { metricsExported, spansExported } from "./exported.ts";
import { metricFaults, prometheusFaults } from "./real-metrics.ts";

const rulesFolder = join(import.meta.dirname, "../../../deploy/observability");

const folder = await lastingFolder();
await cp(rulesFolder, folder, { recursive: true });

/** A file in which one thing is changed, so that the tool must refuse it. */
async function broken(name: string, from: string, to: string): Promise<string> {
  const text = await readFile(join(folder, name), "utf8");
  if (!text.includes(from)) throw new Error(`${name} does not have ${from}`);
  const path = join(folder, `broken-${name}`);
  await writeFile(path, text.replace(from, to));
  return path;
}

const checks: readonly (readonly [string, readonly string[], boolean])[] = [
  [
    "check rules",
    ["check", "rules", "--lint=all", "--lint-fatal", join(folder, "rules.yaml")],
    true,
  ],
  ["test rules", ["test", "rules", join(folder, "rules.test.yaml")], true],
  [
    "check rules, of an expression that does not parse",
    ["check", "rules", await broken("rules.yaml", "absent(rampart_ready)", "absent(rampart_ready")],
    false,
  ],
  [
    "test rules, of a test that expects another alert",
    ["test", "rules", await broken("rules.test.yaml", "job: alone", "job: followed")],
    false,
  ],
];

/** A name, and a search for faults. */
type Scene = readonly [name: string, find: () => Promise<readonly string[]>];

const ofRules = (promtool: string): readonly Scene[] =>
  checks.map(([name, words, isGood]) => [
    name,
    async () => {
      const { exitCode, stdout, stderr } = await run(promtool, words);
      return (exitCode === 0) === isGood ? [] : [`${stdout}${stderr}`.trim()];
    },
  ]);

/** What the programs expose by themselves, and not series that a test makes up. */
const ofPrograms = (promtool: string, server: string): readonly Scene[] => [
  ["check metrics, of a scrape of every program", () => metricFaults(promtool)],
  [
    "a Prometheus scrapes every program, evaluates every rule and answers every panel",
    () => prometheusFaults(server, rulesFolder, folder),
  ],
];

/** What a real collector has accepted. */
const ofCollector = (collector: string): readonly Scene[] => [
  ["every program sends its metrics", () => metricsExported(collector)],
  ["serve sends the spans of calls, also those of an outage", () => spansExported(collector)],
];

/** @throws Error with the faults that were found. */
const playScenes = (client: string, server: string, scenes: readonly Scene[]): Promise<Outcome[]> =>
  playRows(
    { client, server },
    scenes.map(([name, find]) => [
      name,
      async () => {
        const found = await find();
        if (found.length > 0) throw new Error(found.join("; "));
      },
    ]),
  );

async function outcomes(): Promise<Outcome[]> {
  const promtool = await required(fromDebian("prometheus", "usr/bin/promtool"));
  const prometheus = await required(fromDebian("prometheus", "usr/bin/prometheus"));
  const collector = await required(collectorProgram());
  return [
    ...(await playScenes("promtool", "deploy/observability", ofRules(promtool))),
    ...(await playScenes("Prometheus", "every program", ofPrograms(promtool, prometheus))),
    ...(await playScenes("a collector of OpenTelemetry", "every program", ofCollector(collector))),
  ];
}

reportOutcomes(await playAll({ client: "promtool", server: "deploy/observability" }, outcomes));
