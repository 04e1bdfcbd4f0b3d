import { existsSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, report } from "../outcomes.ts";
import { executableRows, foreignRows } from "./executable-rows.ts";
import { imageRows } from "./image-rows.ts";
import { installPackage } from "./installation.ts";
import { npmRows, type Row } from "./npm-rows.ts";
import { releaseRows } from "./release-rows.ts";
import { releaseBefore, upgradeRows } from "./upgrade-rows.ts";

/** Plays rows in their order: a later one may need what an earlier one has made. */
async function play(client: string, rows: readonly Row[]): Promise<Outcome> {
  const faults: string[] = [];
  for (const [what, trial] of rows) {
    const begun = performance.now();
    await trial().then(
      () => console.log(`package: ok: ${what} (${Math.round(performance.now() - begun)} ms)`),
      (error: unknown) => faults.push(`${what}: ${error instanceof Error ? error.message : error}`),
    );
  }
  return { client, server: "installed", passed: rows.length - faults.length, faults };
}

async function playForeign(): Promise<Outcome> {
  const rows = await foreignRows(folder);
  if (typeof rows !== "string") return play("executable on arm64", rows);
  return {
    client: "executable on arm64",
    server: "installed",
    passed: 0,
    faults: [],
    missing: rows,
  };
}

function playUpgrade(): Promise<Outcome> | Outcome {
  if (existsSync(releaseBefore)) return play("upgrade", upgradeRows(installation, folder));
  const notPlayed = "../shared/releases has no archive of the release before";
  return { client: "upgrade", server: "installed", passed: 0, faults: [], notPlayed };
}

const folder = await lastingFolder();
await chmod(folder, 0o755);
const installation = await installPackage(folder);
report([
  await play("npm", npmRows(installation, folder)),
  await play("executable", executableRows(folder)),
  await playForeign(),
  await play("image", imageRows(folder)),
  await playUpgrade(),
  await play("release", releaseRows(installation, folder)),
]);
// A row that failed may have left programs behind, which would keep this one from its end.
process.exit();
