import { readFileSync } from "node:fs";

/** This repository's `wrangler.toml`. The bundled program has its text instead of this module. */
export const wranglerToml: string = readFileSync(
  new URL("../../../../wrangler.toml", import.meta.url),
  "utf8",
);
