import fc from "fast-check";
import { expect, test } from "vitest";
import { fieldsOf, headersOf } from "../../../src/program/http/http-exchange.ts";

const name = fc.constantFrom("authorization", "x-a", "x-b", "content-type", "clusterid");
const value = fc.stringMatching(/^[ \t]{0,3}[\x21-\x7e ,]{0,12}[ \t]{0,3}$/);
const rawHeaders = fc.array(fc.tuple(name, value), { maxLength: 8 }).map((pairs) => pairs.flat());

test("the fields of an HTTP/2 request are those of Headers", () => {
  fc.assert(
    fc.property(rawHeaders, name, (raw, wanted) => {
      expect(fieldsOf(raw).get(wanted)).toBe(headersOf(raw).get(wanted));
    }),
  );
});

test("every value of a repeated field counts, so that a second credential is not hidden", () => {
  const raw = ["authorization", "Bearer a", ":path", "/", "authorization", " Bearer b "];
  expect(fieldsOf(raw).get("authorization")).toBe("Bearer a, Bearer b");
  expect(fieldsOf(raw).get("clusterid")).toBeNull();
});
