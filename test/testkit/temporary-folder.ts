import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** An empty folder for one test, gone when that test ends. Its path is short enough for a socket. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "rampart-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
