import { expect, test } from "vitest";
import type { AuthorityView } from "../../src/ca/authority-view.ts";
import { type Hindrances, readinessIn } from "../../src/ca/readiness.ts";

const now = new Date("2026-11-21T12:00:00Z");
const root = new Uint8Array([0x30, 0]);
const viewOf = (issuer: object | undefined, ...roots: Uint8Array[]) =>
  ({ issuer, trustBundle: { roots } }) as unknown as AuthorityView;

test("a look at the log comes before what it is asked", async () => {
  let refused: string | undefined;
  const look = async () => {
    await Promise.resolve();
    refused = "full";
  };
  const issuanceLog = {
    mode: "required" as const,
    look,
    refusal: () => refused,
    troubles: () => [],
  };
  expect((await readinessIn(viewOf({}, root), { issuanceLog }, now)).ready).toBe(false);
});

const whole = viewOf({}, root);
const log = { refusal: () => "full", troubles: () => ["slow"] };

test.each<[string, AuthorityView | undefined, Hindrances, boolean, string[]]>([
  ["with an authority and its root", whole, {}, true, []],
  ["without a root, by which nobody could verify", viewOf({}), {}, false, []],
  ["without an authority", viewOf(undefined, root), {}, false, []],
  ["without a view", undefined, {}, false, []],
  ["with a full log", whole, { issuanceLog: { ...log, mode: "required" } }, false, ["slow"]],
  ["by best effort", whole, { issuanceLog: { ...log, mode: "best-effort" } }, true, ["slow"]],
  ["without an issuer's keys", whole, { keyFault: async () => "no key" }, false, ["no key"]],
  ["without a port", whole, { port: () => ({ ready: false, reasons: ["shut"] }) }, false, ["shut"]],
  ["with an ending lease", whole, { kekFault: () => "no lease" }, true, ["no lease"]],
  ["with a full store", whole, { storeFault: () => "no space" }, true, ["no space"]],
])("readiness %s", async (_, view, hindrances, ready, reasons) => {
  expect(await readinessIn(view, hindrances, now)).toEqual({ ready, reasons });
});
