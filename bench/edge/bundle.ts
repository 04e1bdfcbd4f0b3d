import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";

const environment = {
  ...process.env,
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
};

/** A Worker as wrangler deploys it. */
interface Bundle {
  readonly script: string;
  readonly gzipKibibytes: number;
}

/** Bundles a Worker by the settings of `wrangler.toml`. */
export function bundleWorker(entry: string): Bundle {
  const folder = mkdtempSync(join(tmpdir(), "rampart-bench-"));
  wrangler("deploy", entry, "--dry-run", "--outdir", folder);
  const script = readFileSync(join(folder, `${basename(entry, ".ts")}.js`), "utf8");
  rmSync(folder, { recursive: true });
  return { script, gzipKibibytes: gzipSync(script).length / 1024 };
}

/**
 * CPU that the Worker needs before its first request, in milliseconds. It is the best of eight starts,
 * because a profile has only about fifty samples and also counts the time of other processes.
 */
export function startupMilliseconds(): number {
  const folder = mkdtempSync(join(tmpdir(), "rampart-bench-"));
  const profile = join(folder, "startup.cpuprofile");
  const starts = Array.from({ length: 8 }, () => {
    const report = wrangler("check", "startup", "--outfile", profile);
    return Number(/Active: ([\d.]+) ms/.exec(report)?.[1] ?? Number.NaN);
  });
  rmSync(folder, { recursive: true });
  return Math.min(...starts);
}

function wrangler(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync("node_modules/.bin/wrangler", args, {
    encoding: "utf8",
    env: environment,
  });
  if (status !== 0) throw new Error(`wrangler ${args.join(" ")} failed:\n${stderr}`);
  return stdout;
}
