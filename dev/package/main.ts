import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { writePackage } from "./package.ts";

const root = join(import.meta.dirname, "../..");

execFileSync("tsc", ["-b", "src/worker"], { cwd: root, stdio: "inherit" });
// npm packs what `files` of package.json names, and that is this folder.
await writePackage(join(root, "dist"));
