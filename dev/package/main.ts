import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { writeConsoleAssets } from "../console-assets.ts";
import { bundlePackage } from "./bundle.ts";
import { copyDeclarations } from "./declarations.ts";

const root = join(import.meta.dirname, "../..");
const folder = join(root, "dist");

// npm packs what `files` of package.json names, and that is this folder.
await bundlePackage(folder);
await writeConsoleAssets(join(folder, "console"));
execFileSync("tsc", ["-b", "src/worker"], { cwd: root, stdio: "inherit" });
await copyDeclarations(join(folder, "types"));
