import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** The files that `npm start` reads beside the packages. Its state goes into the same folder. */
const parts = ["dev", "proto", "src", "package.json", "tsconfig.json", "wrangler.toml"];

/**
 * Seconds from `npm start` to the first certificate that it prints, in a fresh copy of the project, so
 * that no existing state changes.
 *
 * @throws Error with its output when it ends without a certificate.
 */
export async function firstStart(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "rampart-bench-"));
  for (const part of parts) cpSync(part, join(folder, part), { recursive: true });
  symlinkSync(join(process.cwd(), "node_modules"), join(folder, "node_modules"));
  const begin = performance.now();
  // A process group of its own can be interrupted as a whole, as by Ctrl-C.
  const child = spawn("npm", ["start"], { cwd: folder, detached: true });
  const ended = once(child, "exit");
  try {
    await firstCertificate(child);
    return (performance.now() - begin) / 1000;
  } finally {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGINT");
    await ended;
    rmSync(folder, { recursive: true });
  }
}

async function firstCertificate({ stdout, stderr }: ChildProcess): Promise<void> {
  if (!stdout || !stderr) throw new Error("npm start without pipes");
  const errors = stderr.setEncoding("utf8").toArray();
  for await (const line of createInterface(stdout)) {
    if (line.startsWith("The first certificate")) return;
  }
  throw new Error(`npm start showed no certificate:\n${(await errors).join("")}`);
}
