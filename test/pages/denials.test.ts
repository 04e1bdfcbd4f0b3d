import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { deniedProductsTable } from "../contract/withdrawal/denied-products.ts";

test("the page about denials has the table of products that every platform is held to", () => {
  const page = readFileSync(new URL("../../docs/how-to/deny.md", import.meta.url), "utf8");
  expect(page).toContain(`\n${deniedProductsTable()}\n`);
});
