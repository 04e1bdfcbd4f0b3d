import { expect, test } from "vitest";
import { formatTable } from "../../../src/cli/terminal/table.ts";
import { plainScreen } from "../../testkit/programs/memory-terminal.ts";

const [x, y] = ["x", "y"].map((name) => `spiffe://cluster.local/ns/${name}`);

/** What is shown of a table: of how many columns, its headings, its rows, its lines, and what leaves the line first. */
test.each<[string, number | undefined, string, string[][], string[], string[]?]>([
  [
    "a column is as wide as its longest cell, headings included, and no line ends in blanks",
    undefined,
    "ID PHASE LAST",
    [
      ["a", "signing", "x"],
      ["abcdef", "no", ""],
    ],
    ["ID      PHASE    LAST", "a       signing  x", "abcdef  no"],
  ],
  ["a table without rows prints its headings", undefined, "ID PHASE", [], ["ID  PHASE"]],
  [
    "a column without values leaves a line that is too long, and leaves nothing below",
    20,
    "ID CLUSTER SERIAL",
    [["a", "-", "0123456789"]],
    ["ID  SERIAL", "a   0123456789"],
  ],
  [
    "named columns leave the line first, and each row has their values below it, uncut",
    32,
    "ID NAME CLUSTER ENDS",
    [
      ["a", `${x}`, "one", "2026"],
      ["b", `${y}`, "-", "2027"],
    ],
    [
      ...["ID  CLUSTER  ENDS", "a   one      2026", "  NAME", `    ${x}`],
      ...["b   -        2027", "  NAME", `    ${y}`],
    ],
    ["NAME", "CLUSTER"],
  ],
  [
    "the widest column leaves the line where none is named, but never the first",
    16,
    "ID WHY N",
    [["0123456789", "abcdefgh", "x"]],
    ["ID          N", "0123456789  x", "  WHY abcdefgh"],
  ],
  [
    "a first column that is too long alone goes on in the next line",
    6,
    "ID N",
    [["0123456789", "7"]],
    ["ID", "012345", "  6789", "  N 7"],
  ],
  [
    "a long note breaks between words",
    20,
    "ID WHY",
    [["a", "stolen from a laptop in a train"]],
    ["ID", "a", "  WHY stolen from a", "    laptop in a", "    train"],
  ],
  [
    "letters that terminals show two columns wide count for two",
    undefined,
    "ID N",
    [
      ["根证书", "1"],
      ["abcdef", "2"],
    ],
    ["ID      N", "根证书  1", "abcdef  2"],
  ],
])("%s", (_, width, headings, rows, lines, below) => {
  const table = formatTable(plainScreen(width), headings.split(" "), rows, below);
  expect(table.split("\n")).toEqual(lines);
});

test("a table that nobody reads on a terminal has each row whole in one line", () => {
  const rows = [["a".repeat(200), "b".repeat(200), "c d e"]];
  expect(formatTable(plainScreen(), ["ID", "NAME", "WHY"], rows, ["NAME"]).split("\n")).toEqual([
    expect.stringMatching(/^ID +NAME +WHY$/),
    rows[0]?.join("  "),
  ]);
});
