import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { pageWith, type Seen } from "../testkit/outages/page.ts";
import { rows } from "../testkit/outages/rows.ts";

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

const seen: Seen = JSON.parse(read("test/testkit/outages/seen.json"));

const page = read("docs/how-to/troubleshoot.md");

test("the page for troubles holds what the last run has seen, and no others", () => {
  expect(page).toContain("| what is wrong |");
  expect(pageWith(seen, page) === page).toBe(true);
});

test("every row was seen, and has a section that says what to do", () => {
  expect(seen.map(({ name }) => name)).toEqual(rows.map(({ name }) => name));
  const headings = [...page.matchAll(/^##+ (.*)$/gm)].map(([, heading = ""]) =>
    heading.toLowerCase(),
  );
  for (const { name, advice } of rows) expect(headings, name).toContain(advice.anchor);
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
