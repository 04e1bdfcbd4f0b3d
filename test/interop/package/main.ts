import { existsSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, playAll, playRows, type Row, reportOutcomes } from "../outcome-table.ts";
import { executableRows, foreignRows } from "./executable-rows.ts";
import { imageRows } from "./image-rows.ts";
import { installPackage } from "./installation.ts";
import { npmRows } from "./npm-rows.ts";
import { releaseRows } from "./release-rows.ts";
import { releaseBefore, upgradeRows } from "./upgrade-rows.ts";

const server = "installed";
const play = (client: string, rows: readonly Row[]): Promise<Outcome[]> =>
  playRows({ client, server }, rows);

const playForeign = (client: string): Promise<Outcome[]> =>
  playAll({ client, server }, async () => play(client, await foreignRows(folder)));

async function playUpgrade(): Promise<Outcome[]> {
  if (existsSync(releaseBefore)) return play("upgrade", upgradeRows(installation, folder));
  const detail = "../shared/releases has no archive of the release before";
  return [{ client: "upgrade", server, what: "all", result: "not played", detail }];
}

const folder = await lastingFolder();
await chmod(folder, 0o755);
const installation = await installPackage(folder);
reportOutcomes([
  ...(await play("npm", npmRows(installation, folder))),
  ...(await play("executable", executableRows(folder))),
  ...(await playForeign("executable on arm64")),
  ...(await play("image", imageRows(folder))),
  ...(await playUpgrade()),
  ...(await play("release", releaseRows(installation, folder))),
]);
// A row that failed may have left programs behind, which would keep this one from its end.
process.exit();
