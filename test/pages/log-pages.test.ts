import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { logPages } from "../../dev/log-pages.ts";

test.each(Object.entries(logPages))(
  "%s has what the code of `log follow` has: `npm run generate` writes it",
  (name, filled) => {
    const page = readFileSync(`docs/how-to/${name}`, "utf8");
    expect(filled(page) === page).toBe(true);
  },
);
