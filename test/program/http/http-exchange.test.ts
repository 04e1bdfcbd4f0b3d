import fc from "fast-check";
import { expect, test } from "vitest";
import { RawHeaders } from "../../../src/program/http/http-exchange.ts";

const name = fc.constantFrom("authorization", "x-a", "x-b", "content-type", "clusterid");
const value = fc.stringMatching(/^[ \t]{0,3}[\x21-\x7e ,]{0,12}[ \t]{0,3}$/);
const rawHeaders = fc.array(fc.tuple(name, value), { maxLength: 8 }).map((pairs) => pairs.flat());

test("the fields of an HTTP/2 request are those of Headers", () => {
  fc.assert(
    fc.property(rawHeaders, name, (raw, wanted) => {
      expect(RawHeaders.toFields(raw).get(wanted)).toBe(RawHeaders.toHeaders(raw).get(wanted));
    }),
  );
});

test("every value of a repeated field counts, so that a second credential is not hidden", () => {
  const raw = ["authorization", "Bearer a", ":path", "/", "authorization", " Bearer b "];
  expect(RawHeaders.toFields(raw).get("authorization")).toBe("Bearer a, Bearer b");
  expect(RawHeaders.toFields(raw).get("clusterid")).toBeNull();
});
