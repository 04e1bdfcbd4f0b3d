import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { cacheFolder } from "./python-packages.ts";

const run = promisify(execFile);
const source = join(import.meta.dirname, "clients/go-spiffe");

/** Builds the watcher on go-spiffe; its modules come through the Go module proxy. */
export async function buildGoClient(): Promise<string> {
  await mkdir(cacheFolder, { recursive: true });
  const program = join(cacheFolder, "agent-go-spiffe");
  await run("go", ["build", "-o", program, "."], { cwd: source });
  return program;
}
