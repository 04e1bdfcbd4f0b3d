import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import type { FoundEntry } from "../../src/status/found-entry.ts";
import {
  countingCalls,
  countsInLog,
  IssuanceCounts,
  ruleStatuses,
} from "../../src/status/issuance.ts";
import { configurationOf } from "../testkit/configuration.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";

const start = new Date("2026-11-21T12:00:00Z");
const minutesOn = (minutes: number): Date => addSeconds(start, minutes * 60);
const issued = { outcome: "issued", cluster: "prod" } as const;

describe("the counts of a process", () => {
  test("are by cluster and outcome, over the last hour and the last day", () => {
    const counts = new IssuanceCounts("here", start);
    counts.count(issued, start);
    counts.count({ outcome: "refused" }, minutesOn(30));
    counts.count({ ...issued, outcome: "failed" }, minutesOn(90));
    const { clusters } = counts.statusAt(minutesOn(91));
    expect(clusters).toMatchObject([
      { cluster: "", lastHour: { refused: 0 }, lastDay: { issued: 0, refused: 1 } },
      { cluster: "prod", lastHour: { issued: 0, failed: 1 }, lastDay: { issued: 1, failed: 1 } },
    ]);
  });

  test("forget what is older than a day, also after a day without a call", () => {
    const counts = new IssuanceCounts("here", start);
    for (let i = 0; i < 5; i++) counts.count(issued, start);
    counts.count({ ...issued, cluster: "test" }, start);
    expect(counts.statusAt(minutesOn(24 * 60 - 6)).clusters[0]?.lastDay.issued).toBe(5);
    expect(counts.statusAt(minutesOn(24 * 60 + 5)).clusters[0]?.lastDay.issued).toBe(0);
    counts.count(issued, minutesOn(24 * 60));
    // Of a clock that is set back: its slot counts a later time.
    counts.count(issued, start);
    const { clusters } = counts.statusAt(minutesOn(24 * 60));
    expect(clusters.map(({ lastDay }) => lastDay.issued)).toEqual([1, 0]);
  });

  test("end with the current hour", () => {
    const counts = new IssuanceCounts("here", start);
    counts.count(issued, minutesOn(0));
    counts.count(issued, minutesOn(70));
    const { hours } = counts.statusAt(minutesOn(70));
    expect(hours).toHaveLength(24);
    expect(hours.map((hour) => hour.issued).slice(-3)).toEqual([0, 1, 1]);
  });

  test("stay bounded, whatever names clusters have", () => {
    const counts = new IssuanceCounts("here", start);
    for (let i = 0; i < 3000; i++) counts.count({ outcome: "issued", cluster: `c${i}` }, start);
    expect(counts.statusAt(start).clusters).toHaveLength(1024);
  });

  test("leave a log as it is", () => {
    const log = createEventRecorder();
    const counts = new IssuanceCounts("here", start);
    const event = { event: "create-certificate", outcome: "issued", requestId: "1" } as const;
    countingCalls(log, counts, () => start).audit(event);
    expect(log.audits).toEqual([event]);
    expect(counts.statusAt(start).clusters[0]?.lastHour.issued).toBe(1);
  });
});

describe("the counts from a log", () => {
  const entry = (
    minutes: number,
    cluster: string,
    proof: FoundEntry["proof"] = "token",
  ): FoundEntry => ({
    origin: "log.test",
    index: 0,
    at: minutesOn(minutes),
    name: "",
    serialNumber: "01",
    audiences: [],
    claimed: [],
    notAfter: minutesOn(9999),
    cluster,
    node: "",
    pod: "",
    proof,
  });
  const inLog = (entries: readonly FoundEntry[]) =>
    countsInLog({ entries, searched: entries.length, total: 1000 }, now).statusAt(now);
  const now = minutesOn(24 * 60);

  test("leave out what is older than a day or of the future, and the certificates of authorities", () => {
    const entries = [
      entry(1446, "a"),
      entry(1430, "a"),
      entry(600, "a"),
      entry(6, "a"),
      entry(-5, "a"),
      entry(1435, "", "authority"),
    ];
    const { clusters, since, issuedOnly } = inLog(entries);
    expect(issuedOnly).toBe(true);
    expect(clusters).toMatchObject([
      { cluster: "a", lastHour: { issued: 1 }, lastDay: { issued: 3 } },
    ]);
    expect(since).toEqual(start);
  });

  test("say how often each rule decided, and what those in shadow would have done", () => {
    const decision = { rule: "short", shadowRule: "new", shadowEffect: "denied" } as const;
    const entries = [
      { ...entry(1430, "a"), decision },
      { ...entry(600, "a"), decision },
      entry(10, "a"),
    ];
    const counts = countsInLog({ entries, searched: 3, total: 3 }, now);
    expect(counts.decidedBy("short", now).lastHour).toMatchObject({ requests: 1, denied: 0 });
    expect(counts.decidedBy("new", now).lastDay).toMatchObject({ requests: 2, denied: 2 });
    expect(counts.statusAt(now).clusters[0]?.lastDay.issued).toBe(3);
  });

  test("begin with the oldest entry that was read, if the log has older ones", () => {
    const { since, scope } = inLog([entry(1400, "a")]);
    expect(since).toEqual(minutesOn(1400));
    expect(scope).toContain("the newest 1 of 1000 entries of the issuance log");
    const whole = countsInLog({ entries: [entry(1400, "a")], searched: 1, total: 1 }, now);
    expect(whole.statusAt(now).since).toEqual(start);
  });
});

describe("the decisions of rules", () => {
  const { policy } = configurationOf({
    POLICY: {
      rules: [
        { name: "new", shadow: true, when: { namespace: "shop" }, then: { deny: "closed" } },
        { name: "short", then: { maximum_life: "1h" } },
      ],
    },
  });
  const decided = { ...issued, rule: "short", effect: "shortened" } as const;

  test("are by rule, over the last hour and the last day, those in shadow by what would be", () => {
    const counts = new IssuanceCounts("here", start);
    counts.count({ ...decided, shadowRule: "new", shadowEffect: "denied" }, start);
    counts.count(decided, minutesOn(90));
    counts.count({ ...decided, effect: "same" }, minutesOn(90));
    counts.count({ ...decided, effect: "unknown" }, minutesOn(90));
    counts.count(issued, minutesOn(90));
    expect(ruleStatuses(policy, counts, minutesOn(91))).toMatchObject([
      {
        name: "new",
        shadow: true,
        when: { namespace: ["shop"] },
        lastHour: { requests: 0 },
        lastDay: { requests: 1, denied: 1, changed: 0 },
      },
      {
        name: "short",
        shadow: false,
        lastHour: { requests: 3, denied: 0, changed: 1 },
        lastDay: { requests: 4, denied: 0, changed: 2 },
      },
    ]);
    const later = ruleStatuses(policy, counts, minutesOn(26 * 60));
    expect(later.map(({ lastDay }) => lastDay?.requests)).toEqual([0, 0]);
  });

  test("are not there where nobody counts, nor without rules", () => {
    expect(ruleStatuses(policy, undefined, start)[0]).not.toHaveProperty("lastHour");
    expect(ruleStatuses(undefined, undefined, start)).toEqual([]);
  });
});
