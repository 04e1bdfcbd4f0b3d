import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";

const folder = new URL("../../../../docs/", import.meta.url);
const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
  /\/[a-z0-9-]+\.md$/.test(path),
);

/** The pages of the documentation by their names. The bundled program has only those that its texts name. */
export const pages: ReadonlyMap<string, string> = new Map(
  files.map((path) => [basename(path, ".md"), readFileSync(new URL(path, folder), "utf8")]),
);
