import { expect, test } from "vitest";
import { formatInstant, formatTable, outputWidth } from "../../../src/cli/terminal/table.ts";
import { columnsOf } from "../../../src/cli/terminal/width.ts";

test("a column is as wide as its longest cell, headings included, and no line ends in blanks", () => {
  const rows = [
    ["a", "signing", "x"],
    ["abcdef", "no", ""],
  ];
  expect(formatTable(["ID", "PHASE", "LAST"], rows).split("\n")).toEqual([
    "ID      PHASE    LAST",
    "a       signing  x",
    "abcdef  no",
  ]);
});

test("a table without rows prints its headings", () => {
  expect(formatTable(["ID", "PHASE"], [])).toBe("ID  PHASE");
});

test("a column without values leaves a line that is too long, and leaves nothing below", () => {
  const rows = [["a", "-", "0123456789"]];
  expect(formatTable(["ID", "CLUSTER", "SERIAL"], rows, { width: 20 }).split("\n")).toEqual([
    "ID  SERIAL",
    "a   0123456789",
  ]);
});

test("named columns leave the line first, and each row has their values below it, uncut", () => {
  const rows = [
    ["a", "spiffe://cluster.local/ns/x", "one", "2026"],
    ["b", "spiffe://cluster.local/ns/y", "-", "2027"],
  ];
  const shape = { width: 32, below: ["NAME", "CLUSTER"] };
  expect(formatTable(["ID", "NAME", "CLUSTER", "ENDS"], rows, shape).split("\n")).toEqual([
    "ID  CLUSTER  ENDS",
    "a   one      2026",
    "  NAME",
    "    spiffe://cluster.local/ns/x",
    "b   -        2027",
    "  NAME",
    "    spiffe://cluster.local/ns/y",
  ]);
});

test("the widest column leaves the line where none is named, but never the first", () => {
  const rows = [["0123456789", "abcdefgh", "x"]];
  expect(formatTable(["ID", "WHY", "N"], rows, { width: 16 }).split("\n")).toEqual([
    "ID          N",
    "0123456789  x",
    "  WHY abcdefgh",
  ]);
});

test("a first column that is too long alone goes on in the next line", () => {
  expect(formatTable(["ID", "N"], [["0123456789", "7"]], { width: 6 }).split("\n")).toEqual([
    "ID",
    "012345",
    "  6789",
    "  N 7",
  ]);
});

test("a long note breaks between words", () => {
  const [, , ...note] = formatTable(["ID", "WHY"], [["a", "stolen from a laptop in a train"]], {
    width: 20,
  }).split("\n");
  expect(note).toEqual(["  WHY stolen from a", "    laptop in a", "    train"]);
});

test("letters that terminals show two columns wide count for two", () => {
  const [, ...rows] = formatTable(
    ["ID", "N"],
    [
      ["根证书", "1"],
      ["abcdef", "2"],
    ],
  ).split("\n");
  expect(rows).toEqual(["根证书  1", "abcdef  2"]);
  expect(columnsOf("\u001b[31mred\u001b[39m")).toBe(3);
});

test.each<[{ isTTY?: boolean; columns?: number }, string | undefined, number]>([
  [{ isTTY: true, columns: 160 }, undefined, 160],
  [{ isTTY: true, columns: 80 }, undefined, 80],
  [{ isTTY: true, columns: 0 }, undefined, 100],
  [{ isTTY: true, columns: 10 }, undefined, 40],
  [{ isTTY: true, columns: 80 }, "120", 120],
  [{ isTTY: true, columns: 80 }, "wide", 80],
  [{ isTTY: false, columns: 160 }, undefined, Number.POSITIVE_INFINITY],
  [{}, undefined, Number.POSITIVE_INFINITY],
  [{}, "0", Number.POSITIVE_INFINITY],
  [{}, "72", 72],
])("lines for %j with COLUMNS=%s are at most %d columns", (stream, wished, width) => {
  expect(outputWidth(stream, { COLUMNS: wished })).toBe(width);
});

test("a table that nobody reads on a terminal has each row whole in one line", () => {
  const rows = [["a".repeat(200), "b".repeat(200), "c d e"]];
  const width = outputWidth({}, {});
  expect(formatTable(["ID", "NAME", "WHY"], rows, { width, below: ["NAME"] }).split("\n")).toEqual([
    expect.stringMatching(/^ID +NAME +WHY$/),
    rows[0]?.join("  "),
  ]);
});

test("an instant prints to the minute, in UTC, and is never rounded up", () => {
  expect(formatInstant(new Date("2026-11-21T23:59:59.999Z"))).toBe("2026-11-21 23:59Z");
  expect(formatInstant(new Date("2026-11-22T01:00:00.000+02:00"))).toBe("2026-11-21 23:00Z");
});
