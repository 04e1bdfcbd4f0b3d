import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** Its path is short enough for a socket. */
const newFolder = (): Promise<string> => mkdtemp(join(tmpdir(), "rampart-"));

/** An empty folder for one test, gone when that test ends. */
export async function temporaryFolder(): Promise<string> {
  const folder = await newFolder();
  // A write that the test does not await may fall into the removal.
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

const lasting: string[] = [];

/** An empty folder for this process, gone when that ends well. After a failure it stays, for what programs wrote there. */
export async function lastingFolder(): Promise<string> {
  const folder = await newFolder();
  if (lasting.push(folder) === 1) process.once("exit", leaveFolders);
  return folder;
}

function leaveFolders(exitCode: number): void {
  if (exitCode !== 0) console.error(`what the programs said: ${lasting.join(", ")}`);
  else for (const folder of lasting) rmSync(folder, { recursive: true, force: true });
}
