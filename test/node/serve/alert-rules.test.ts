import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type ExposedMetric, expositions } from "../../testkit/observability/expositions.ts";
import { expectExplainedAndApart, type Panel } from "../../testkit/observability/panels.ts";
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
const panels: readonly Panel<"expr">[] = JSON.parse(
  read("deploy/observability/dashboard.json"),
).panels;

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

describe("the dashboard", () => {
  const drawn = panels.filter(({ type }) => type !== "row");

  test("names only metrics that a program exposes, or that a rule records", () => {
    const expressions = drawn.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    expect(expressions.length).toBeGreaterThan(30);
    expect(strangersIn(expressions)).toEqual([]);
  });

  test("explains every panel, and draws none over another", () => {
    expectExplainedAndApart(panels);
  });
});
