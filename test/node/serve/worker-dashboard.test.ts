import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { countingInDataset } from "../../../src/worker/bindings.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { expectExplainedAndApart, type Panel } from "../../testkit/observability/panels.ts";

const root = join(import.meta.dirname, "../../..");
const file = join(root, "deploy/observability/worker-dashboard.json");

const { panels }: { readonly panels: readonly Panel<"query">[] } = JSON.parse(
  readFileSync(file, "utf8"),
);
const drawn = panels.filter(({ type }) => type !== "row");

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
  const log = countingInDataset(createEventRecorder(), {
    writeDataPoint: ({ indexes, blobs: texts, doubles }: Point) => {
      const all = blobs.map((_, i) => texts[i] ?? "");
      insert.run(...indexes, ...all, ...doubles, 2);
    },
  });
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

describe("the dashboard for Workers", () => {
  test("shows the points that the Worker writes", () => {
    const database = writtenPoints();
    const shown = Object.fromEntries(
      drawn.map(({ title, targets = [] }) => [
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

  test("explains every panel, and draws none over another", () => {
    expectExplainedAndApart(panels);
  });
});
