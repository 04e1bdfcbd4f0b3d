import { expect, test } from "vitest";
import { formatTaintedAuthorities } from "../../src/config/tainted-authorities.ts";
import { configurationOf, expectOneFault, faultsOf } from "../testkit/configuration.ts";

const id = "79d5a07c3b12ee0179d5a07c3b12ee0179d5a07c";
const instant = new Date("2027-01-31T12:00:00Z");

const parsed = (value: unknown) => configurationOf({ TAINTED_AUTHORITIES: value }).configuredTaints;

test.each<[string, unknown, Date | undefined]>([
  ["an id", [id], undefined],
  ["a table of an id", [{ id }], undefined],
  ["a table with the end of the root", [{ id, root_until: "2027-01-31T12:00:00Z" }], instant],
  ["an instant of another zone", [{ id, root_until: "2027-01-31T13:00:00+01:00" }], instant],
  ["an instant of TOML's own", [{ id, root_until: instant }], instant],
  ["JSON in a text", JSON.stringify([{ id, root_until: instant }]), instant],
])("TAINTED_AUTHORITIES may hold %s", (_, value, rootUntil) => {
  expect(parsed(value)).toEqual([{ idPrefix: id, rootUntil }]);
});

test("TAINTED_AUTHORITIES may be empty, name a root, and name an id by 16 digits", () => {
  expect(parsed([])).toEqual([]);
  expect(parsed([id.slice(0, 16), "ab".repeat(32)])).toHaveLength(2);
});

test.each<[string, unknown, string]>([
  ["15 digits, which may be the beginning of two ids", [id.slice(0, 15)], "[0].id"],
  ["more than any id has", ["a".repeat(65)], "[0].id"],
  ["upper case, which no id has", [id.toUpperCase()], "[0].id"],
  ["the short id of a list with an ellipsis", [`${id.slice(0, 20)}…`], "[0].id"],
  ["nothing", [""], "[0].id"],
  ["a number", [{ id: 79 }], "[0].id"],
  ["no day", [id, { id, root_until: "soon" }], "[1].root_until"],
  ["a day without a time", [{ id, root_until: "2027-01-31" }], "[0].root_until"],
  ["a day that no month has", [{ id, root_until: "2027-02-30T12:00:00Z" }], "[0].root_until"],
  ["a local time", [{ id, root_until: "2027-01-31T12:00:00" }], "[0].root_until"],
  ["a key that nobody knows", [{ id, root: "immediately" }], "[0].root"],
  ["more taints than an operator makes", Array.from({ length: 101 }, () => id), ""],
])("TAINTED_AUTHORITIES may not hold %s", (_, value, place) => {
  expectOneFault({ TAINTED_AUTHORITIES: value }, `TAINTED_AUTHORITIES${place}`);
});

test("TAINTED_AUTHORITIES may not be an id without a list", () => {
  expect(faultsOf({ TAINTED_AUTHORITIES: id })).toEqual([
    "TAINTED_AUTHORITIES: must be JSON, with no name twice in one object",
  ]);
});

test("the line that states taints is read back as they are", () => {
  const taints = [
    { idPrefix: id, rootUntil: instant },
    { idPrefix: id.slice(0, 16), rootUntil: undefined },
  ];
  const line = formatTaintedAuthorities(taints);
  expect(line).toBe(
    `TAINTED_AUTHORITIES = [{ id = "${id}", root_until = "2027-01-31T12:00:00Z" }, "${id.slice(0, 16)}"]`,
  );
});
