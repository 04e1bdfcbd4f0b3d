import { join } from "node:path";
import { writePackage } from "./package.ts";

// npm shows nothing of its own until it is done.
console.error("bundles programs and Workers, and makes their declarations: some ten seconds");
// npm packs what `files` of package.json names, and that is this folder.
await writePackage(join(import.meta.dirname, "../..", "dist"));
