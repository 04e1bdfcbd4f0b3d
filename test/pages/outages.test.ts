import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { pageOf, type Seen } from "../testkit/outages/page.ts";
import { rows } from "../testkit/outages/rows.ts";

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

const seen: Seen = JSON.parse(read("test/testkit/outages/seen.json"));

test("the page of outages holds what the last run has seen, and no others", () => {
  expect(pageOf(seen) === read("docs/reference/outages.md")).toBe(true);
});

test("every row was seen, and has a section that says what to do", () => {
  expect(seen.map(({ name }) => name)).toEqual(rows.map(({ name }) => name));
  for (const { name, page } of rows) {
    const [file = "", anchor = ""] = page.split("#");
    expect(existsSync(new URL(`../../docs/reference/${file}`, import.meta.url)), name).toBe(true);
    const headings = read(`docs/reference/${file}`).matchAll(/^### (.*)$/gm);
    expect(
      [...headings].map(([, heading = ""]) => heading.toLowerCase()),
      name,
    ).toContain(anchor);
  }
});

test("no row of an outage has a green light, and no advice fails", () => {
  for (const { name, kind } of rows) {
    const found = seen.find((each) => each.name === name);
    expect(found?.cured, name).not.toBe(false);
    if (kind === "danger") continue;
    expect([found?.status === 200, found?.metric === "1", found?.page?.ready], name).not.toContain(
      true,
    );
    expect(found?.alerts, name).not.toEqual([]);
    expect(found?.doctor.code, name).toBeGreaterThan(2);
  }
});
