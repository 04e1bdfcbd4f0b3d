import { expect, test } from "vitest";
import { formatTable } from "../../../src/cli/terminal/table.ts";
import { plainScreen } from "../../testkit/programs/memory-terminal.ts";

test("a column is as wide as its longest cell, headings included, and no line ends in blanks", () => {
  const rows = [
    ["a", "signing", "x"],
    ["abcdef", "no", ""],
  ];
  expect(formatTable(plainScreen(), ["ID", "PHASE", "LAST"], rows).split("\n")).toEqual([
    "ID      PHASE    LAST",
    "a       signing  x",
    "abcdef  no",
  ]);
});

test("a table without rows prints its headings", () => {
  expect(formatTable(plainScreen(), ["ID", "PHASE"], [])).toBe("ID  PHASE");
});

test("a column without values leaves a line that is too long, and leaves nothing below", () => {
  const rows = [["a", "-", "0123456789"]];
  expect(formatTable(plainScreen(20), ["ID", "CLUSTER", "SERIAL"], rows).split("\n")).toEqual([
    "ID  SERIAL",
    "a   0123456789",
  ]);
});

test("named columns leave the line first, and each row has their values below it, uncut", () => {
  const rows = [
    ["a", "spiffe://cluster.local/ns/x", "one", "2026"],
    ["b", "spiffe://cluster.local/ns/y", "-", "2027"],
  ];
  const below = ["NAME", "CLUSTER"];
  expect(
    formatTable(plainScreen(32), ["ID", "NAME", "CLUSTER", "ENDS"], rows, below).split("\n"),
  ).toEqual([
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
  expect(formatTable(plainScreen(16), ["ID", "WHY", "N"], rows).split("\n")).toEqual([
    "ID          N",
    "0123456789  x",
    "  WHY abcdefgh",
  ]);
});

test("a first column that is too long alone goes on in the next line", () => {
  expect(formatTable(plainScreen(6), ["ID", "N"], [["0123456789", "7"]]).split("\n")).toEqual([
    "ID",
    "012345",
    "  6789",
    "  N 7",
  ]);
});

test("a long note breaks between words", () => {
  const [, , ...note] = formatTable(
    plainScreen(20),
    ["ID", "WHY"],
    [["a", "stolen from a laptop in a train"]],
  ).split("\n");
  expect(note).toEqual(["  WHY stolen from a", "    laptop in a", "    train"]);
});

test("letters that terminals show two columns wide count for two", () => {
  const [, ...rows] = formatTable(
    plainScreen(),
    ["ID", "N"],
    [
      ["根证书", "1"],
      ["abcdef", "2"],
    ],
  ).split("\n");
  expect(rows).toEqual(["根证书  1", "abcdef  2"]);
});

test("a table that nobody reads on a terminal has each row whole in one line", () => {
  const rows = [["a".repeat(200), "b".repeat(200), "c d e"]];
  expect(formatTable(plainScreen(), ["ID", "NAME", "WHY"], rows, ["NAME"]).split("\n")).toEqual([
    expect.stringMatching(/^ID +NAME +WHY$/),
    rows[0]?.join("  "),
  ]);
});
