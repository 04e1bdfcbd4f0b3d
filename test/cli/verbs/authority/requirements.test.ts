import { expect, test } from "vitest";
import { findByIdPrefix } from "../../../../src/cli/verbs/authority/requirements.ts";
import { operatorErrorOf } from "../../../testkit/pki/plugged-in.ts";

const candidates = [{ id: "abcd1111" }, { id: "abcd2222" }, { id: "ef012345" }];

test.each(["ef01", "ef0123", "ef012345"])("finds the id that begins with %s", (beginning) => {
  expect(findByIdPrefix(candidates, beginning, "authority")).toBe(candidates[2]);
});

test.each([
  ["", "give at least the first 4 characters of the authority's id"],
  ["ef0", "give at least the first 4 characters of the authority's id"],
  ["abcd", "more than one authority's id begins with abcd: give more characters"],
  ["ffff", "no authority's id begins with ffff"],
  ["abcd11112", "no authority's id begins with abcd11112"],
])("refuses the prefix %j", async (beginning, sentence) => {
  expect(await operatorErrorOf(() => findByIdPrefix(candidates, beginning, "authority"))).toEqual([
    sentence,
  ]);
});
