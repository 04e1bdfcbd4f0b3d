import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Progress } from "./campaign.ts";

const folder = join(import.meta.dirname, "../../../.fuzz");
const file = join(folder, "campaign.json");

/** Saves a campaign, so that `--resume` can go on with it. */
export function saveCampaign(progress: Progress): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${file}.new`, JSON.stringify(progress));
  renameSync(`${file}.new`, file);
}

/** The campaign that was saved last. @throws Error if there is none. */
export function loadCampaign(): Progress {
  return JSON.parse(readFileSync(file, "utf8")) as Progress;
}
