import { expect, test } from "vitest";
import type { AuthorityView } from "../../src/ca/authority-view.ts";
import { readinessIn } from "../../src/ca/readiness.ts";

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

test.each<[string, AuthorityView | undefined, boolean]>([
  ["with an authority and its root", viewOf({}, root), true],
  ["without a root, by which nobody could verify", viewOf({}), false],
  ["without an authority", viewOf(undefined, root), false],
  ["without a view", undefined, false],
])("readiness %s", async (_, view, ready) => {
  expect(await readinessIn(view, {}, now)).toEqual({ ready, reasons: [] });
});
