import { beforeEach, expect, test } from "vitest";
import type { DeliveryState } from "../../../src/delivery/config-map-delivery.ts";
import { DeliveryProgress } from "../../../src/node/distribute/delivery-progress.ts";
import type { NumberedBundle } from "../../../src/pki/authority/trust-bundle.ts";

const first = new Date("2026-11-21T12:00:00Z");
const later = new Date("2026-11-21T12:01:00Z");

let bundle: NumberedBundle | undefined;
let states: DeliveryState[];
let progress: DeliveryProgress;

const everywhere: DeliveryState = { delivered: ["a", "b"], pending: [], hasAll: true };

beforeEach(() => {
  bundle = { pem: "the roots", sequence: 7 };
  states = [everywhere];
  progress = new DeliveryProgress(
    () => bundle,
    [0, 1].map((i) => ({
      stateOf: () => states[i] ?? { delivered: [], pending: [], hasAll: true },
      deliver: async () => {},
    })),
  );
});

test("a bundle counts as delivered since it was first seen everywhere", () => {
  progress.note(first);
  progress.note(later);
  expect(progress.report()).toEqual({
    ready: true,
    sequence: 7,
    since: first,
    delivered: 2,
    pending: [],
    reasons: [],
  });
});

test("a bundle that was missing meanwhile counts as delivered since it came back", () => {
  progress.note(first);
  states = [{ delivered: ["a"], pending: ["b"], hasAll: true }];
  progress.note(first);
  states = [everywhere];
  progress.note(later);
  expect(progress.report().since).toBe(later);
});

test("another bundle counts as delivered since a time of its own", () => {
  progress.note(first);
  bundle = { pem: "other roots", sequence: 8 };
  expect(progress.report()).toMatchObject({ ready: true, since: undefined });
  progress.note(later);
  expect(progress.report()).toMatchObject({ sequence: 8, since: later });
});

const away = { ...everywhere, fault: "the API server did not answer" };

test.each<[string, DeliveryState[], string]>([
  ["the CA has answered", [], "the CA has not answered yet"],
  [
    "the whole cluster has been seen",
    [{ ...everywhere, hasAll: false }],
    "the cluster has not been listed yet",
  ],
  ["the changes of the cluster are seen", [everywhere, away], "the API server did not answer"],
])("nothing is ready before %s", (_, seen, reason) => {
  if (seen.length === 0) bundle = undefined;
  states = seen;
  progress.note(first);
  const report = { ready: false, sequence: bundle?.sequence, since: undefined, reasons: [reason] };
  expect(progress.report()).toMatchObject(report);
});

test("the first of many pending places are named, in all deliveries, and all are counted", () => {
  const pending = Array.from({ length: 12 }, (_, i) => `n${i}`);
  states = [
    { delivered: ["a"], pending: pending.slice(0, 6), hasAll: true },
    { delivered: ["b"], pending: pending.slice(6), hasAll: true },
  ];
  expect(progress.report()).toMatchObject({
    ready: false,
    delivered: 2,
    pending: pending.slice(0, 10),
    reasons: ["12 places do not have the bundle yet"],
  });
});
