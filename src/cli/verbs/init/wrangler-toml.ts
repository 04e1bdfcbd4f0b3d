import { readFileSync } from "node:fs";

/** This repository's `wrangler.toml`. A bundle has its text in the place of this module. */
export const wranglerToml: string = readFileSync(
  new URL("../../../../wrangler.toml", import.meta.url),
  "utf8",
);
