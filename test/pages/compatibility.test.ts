import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type MatrixRow, matrix } from "./compatibility-matrix.ts";

const page = readFileSync(
  new URL("../../docs/reference/compatibility.md", import.meta.url),
  "utf8",
);

const cells = (row: string): string[] =>
  row
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());

test("the compatibility matrix of the pages is what the interop suite plays", () => {
  const [, table = ""] = /\n\| client \|[^\n]*\n\| ---[^\n]*\n((?:\|[^\n]*\n)+)/.exec(page) ?? [];
  const played = Object.values<MatrixRow>(matrix).map(({ client, servers, what }) => [
    client,
    servers.includes("rampart serve") ? "yes" : "",
    servers.includes("rampart gateway") ? "yes" : "",
    servers.includes("Worker") ? "yes" : "",
    what,
  ]);
  expect(table.trimEnd().split("\n").map(cells)).toEqual(played);
});
