import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { countingInDataset } from "../../../src/worker/bindings.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { type ExposedMetric, expositions } from "../../testkit/observability/expositions.ts";
import { metricNamesIn } from "../../testkit/observability/promql.ts";

const root = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: { readonly severity?: string };
}

const groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[] = parse(
  read("deploy/observability/rules.yaml"),
).groups;
const rules = groups.flatMap((group) => group.rules);
const recorded = new Set(rules.flatMap(({ record }) => record ?? []));
const alerts = rules.filter(({ alert }) => alert !== undefined);

/** A panel of a Grafana dashboard, with its targets' queries under the name that their data source has for them. */
interface Panel<Query extends string> {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly targets?: readonly Readonly<Record<Query, string>>[];
  readonly gridPos: Readonly<Record<"x" | "y" | "w" | "h", number>>;
}

const panelsIn = <Query extends string>(file: string): readonly Panel<Query>[] =>
  JSON.parse(read(`deploy/observability/${file}`)).panels;
const drawnIn = <Query extends string>(file: string): readonly Panel<Query>[] =>
  panelsIn<Query>(file).filter(({ type }) => type !== "row");

let exposed: ReadonlyMap<string, readonly ExposedMetric[]>;

beforeAll(async () => {
  exposed = await expositions();
});

/** The series that a metric has, by its type. */
function seriesOf({ name, type }: ExposedMetric): string[] {
  if (type !== "histogram") return [name];
  return [`${name}_bucket`, `${name}_sum`, `${name}_count`];
}

function strangersIn(expressions: readonly string[]): string[] {
  const series = new Set([...exposed.values()].flat().flatMap(seriesOf));
  const names = new Set(expressions.flatMap(metricNamesIn));
  return [...names].filter((name) => !series.has(name) && !recorded.has(name) && !ofNode.has(name));
}

/** A metric of every process, which the expositions leave out. */
const ofNode: ReadonlySet<string> = new Set(["process_resident_memory_bytes"]);

describe("the rules for Prometheus", () => {
  test("name only metrics that a program exposes, or that a rule records", () => {
    expect(strangersIn(rules.map(({ expr }) => expr))).toEqual([]);
  });

  test("have a severity, a summary and a section of the runbook for each alert", () => {
    expect(alerts.length).toBeGreaterThan(15);
    for (const { alert, annotations, labels } of alerts) {
      expect(annotations).toMatchObject({
        summary: expect.any(String),
        description: expect.any(String),
        action: expect.any(String),
        runbook_url: `docs/how-to/troubleshoot.md#${alert?.toLowerCase()}`,
      });
      expect(labels?.severity).toMatch(/^(?:critical|warning)$/);
    }
  });

  test("have names of their own", () => {
    const names = rules.map(({ alert, record }) => alert ?? record);
    expect(new Set(names).size).toBe(names.length);
  });
});

test.each(["dashboard.json", "worker-dashboard.json"])(
  "%s explains every panel, and draws none over another",
  (file) => {
    expect(drawnIn(file).filter(({ description }) => !description)).toEqual([]);
    const panels = panelsIn(file);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  },
);

test("the dashboard names only metrics that a program exposes, or that a rule records", () => {
  const drawn = drawnIn<"expr">("dashboard.json");
  const expressions = drawn.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  expect(expressions.length).toBeGreaterThan(30);
  expect(strangersIn(expressions)).toEqual([]);
});

interface Point {
  readonly indexes: readonly string[];
  readonly blobs: readonly string[];
  readonly doubles: readonly number[];
}

/** The points that a Worker writes for some calls and events, each twice as likely as it is sampled. */
function writtenPoints(): DatabaseSync {
  const database = new DatabaseSync(":memory:");
  const blobs = Array.from({ length: 8 }, (_, i) => `blob${i + 1}`);
  database.exec(
    `CREATE TABLE rampart (index1, ${blobs.join(", ")}, double1, double2, _sample_interval)`,
  );
  const insert = database.prepare(`INSERT INTO rampart VALUES (${Array(12).fill("?").join(", ")})`);
  const dataset = {
    writeDataPoint: ({ indexes, blobs: texts, doubles }: Point) => {
      const all = blobs.map((_, i) => texts[i] ?? "");
      insert.run(...indexes, ...all, ...doubles, 2);
    },
  };
  const log = countingInDataset(createEventRecorder(), { CALL_COUNTS: dataset });
  const event = "create-certificate";
  const call = { event, requestId: "r", durationMilliseconds: 3 } as const;
  log.audit({ ...call, outcome: "issued", cluster: "a", policy: "p", rule: "r1", effect: "same" });
  log.audit({ ...call, outcome: "issued", cluster: "b", policy: "p", shadowRule: "s1" });
  log.audit({ ...call, outcome: "refused", reason: "denied", cluster: "a" });
  log.audit({ ...call, outcome: "failed", reason: "fault" });
  log.operation({ event: "listening", level: "info" });
  log.operation({ event: "quota-unknown", level: "warning" });
  log.operation({ event: "rotation-fault", level: "error" });
  return database;
}

/** A query as SQLite reads it, in an interval of ten seconds that has every point. */
const inSqlite = (query: string): string =>
  query
    .replace(/\$\{dataset\}/, "rampart")
    .replaceAll("$timeSeries", "0")
    .replaceAll("$timeFilter", "1")
    .replaceAll("$interval", "10.0")
    .replace(/quantileExactWeighted\([\d.]+\)\((\w+), _sample_interval\)/, "MAX($1)");

test("the dashboard for Workers shows the points that the Worker writes", () => {
  const database = writtenPoints();
  const shown = Object.fromEntries(
    drawnIn<"query">("worker-dashboard.json").map(({ title, targets = [] }) => [
      title,
      targets.map(({ query }) =>
        database
          .prepare(inSqlite(query))
          .all()
          .map(({ t: _, ...row }) => Object.values(row).join(" ")),
      ),
    ]),
  );
  expect(shown).toEqual({
    Issued: [["0.4"]],
    Refused: [["0.2"]],
    "Own faults": [["0.25"]],
    Errors: [["12"]],
    "Issued and refused": [
      ["failed 0.2", "issued 0.4", "refused 0.2"],
      ["denied 0.2", "fault 0.2"],
    ],
    "Calls by cluster": [["a 0.4", "b 0.2"]],
    "How long calls take": [["3"], ["3"]],
    "Rules that decided": [["r1 same 0.2"]],
    "Rules in shadow": [["s1  0.2"]],
    Events: [["quota-unknown 12", "rotation-fault 12"]],
  });
});
