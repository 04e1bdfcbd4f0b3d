import { expect, test } from "vitest";
import { PhaseSchema } from "../../src/gen/rampart/status/v1/status_pb.ts";
import { phases, Schedule } from "../../src/pki/authority/schedule.ts";
import { deniedProductsTable } from "../contract/withdrawal/denied-products.ts";
import { type MatrixRow, matrix } from "./compatibility-matrix.ts";
import { cellsOf, filesAt, read } from "./page-files.ts";

test("the page of endpoints names every path that a program answers", () => {
  const page = read("docs/reference/endpoints.md");
  const routes = filesAt("src/{transport,node,worker,agent/status}/**/*.ts").flatMap((file) => [
    ...read(file).matchAll(/\b(?:app\.(?:get|all|post)\(|case |path === )"(\/[\w./-]*)/g),
  ]);
  const paths = [...new Set(routes.map(([, path = ""]) => path))];
  expect(paths.length).toBeGreaterThan(12);
  expect(paths.filter((path) => !page.includes(`\`${path}`))).toEqual([]);
});

test("the page for troubles has a row for every reason of a refusal, and for no other", () => {
  const reasons = [...read("src/foundation/refusal.ts").matchAll(/\| \{ reason: "([\w-]+)"/g)];
  const [, refusals = ""] = read("docs/how-to/troubleshoot.md").split(
    "## A caller gets no certificate",
  );
  const named = (refusals.split("\n## ")[0] ?? "")
    .split("\n")
    .filter((row) => row.startsWith("| `") && !row.startsWith("| `reason`"))
    .flatMap((row) => row.split("|")[1]?.match(/[a-z][\w-]+/g) ?? []);
  expect(named.toSorted()).toEqual(reasons.map(([, reason]) => reason).toSorted());
});

test("the page about denials has the table of products that every platform is held to", () => {
  expect(read("docs/how-to/deny.md")).toContain(`\n${deniedProductsTable()}\n`);
});

test("the compatibility matrix of the pages is what the interop suite plays", () => {
  const page = read("docs/reference/compatibility.md");
  const [, table = ""] = /\n\| client \|[^\n]*\n\| ---[^\n]*\n((?:\|[^\n]*\n)+)/.exec(page) ?? [];
  const servers = ["rampart serve", "rampart gateway", "Worker"] as const;
  const played = Object.values<MatrixRow>(matrix).map((row) => [
    row.client,
    ...servers.map((server) => (row.servers.includes(server) ? "yes" : "")),
    row.what,
  ]);
  expect(table.trimEnd().split("\n").map(cellsOf)).toEqual(played);
});

test("the clock leads through the phases of an authority in their order, which all that shows them names alike", () => {
  const hour = (n: number): Date => new Date(Date.UTC(2026, 0, 1, n));
  const [publishedFrom, signsFrom, signsUntil, retiresAt] = [hour(1), hour(2), hour(3), hour(4)];
  const schedule = { publishedFrom, signsFrom, signsUntil, retiresAt };
  expect([0, 1, 2, 3, 4].map((n) => Schedule.phaseAt(schedule, hour(n)))).toEqual(phases);
  const [, ...ofConsole] = PhaseSchema.values;
  expect(ofConsole.map(({ localName }) => localName.toLowerCase())).toEqual(phases);
  const [, table = ""] = read("docs/explanation/rotation.md").split("| phase | begins");
  const rows = table.split("\n\n")[0]?.split("\n").slice(2) ?? [];
  expect(rows.map((row) => cellsOf(row)[0])).toEqual(phases);
  const words = read("docs/pictures/rotation.svg").matchAll(/class="m"[^>]*>([^<]+)</g);
  const drawn = [...words].map(([, word = ""]) => word).filter((word) => !/bundle|root/.test(word));
  expect(drawn.length).toBeGreaterThan(0);
  expect(phases).toEqual(expect.arrayContaining(drawn));
});
