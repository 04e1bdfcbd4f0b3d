import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify, stripVTControlCharacters } from "node:util";
import * as z from "zod/mini";
import { OperatorError } from "../../foundation/errors.ts";
import { JsonBounds } from "../../foundation/json.ts";
import { jsonIn } from "../../foundation/json-members.ts";
import type { KvNamespace } from "../../worker/kv-store.ts";
import { childEnvironment } from "./credential-plugin.ts";
import { wranglerPath } from "./local-worker.ts";

const run = promisify(execFile);

const listSchema = z.array(z.object({ name: z.string() }));
const bulkSchema = z.record(z.string(), z.nullable(z.string()));

/**
 * Opens the deployed KV namespace through `wrangler kv`, with wrangler's own login. A value is passed in a file of a
 * private folder, never on a command line. Each call runs a process for at most a minute.
 * @throws OperatorError from the calls.
 */
export function createRemoteNamespace(
  config: string,
  env: string | undefined,
  environment: NodeJS.ProcessEnv,
): KvNamespace {
  const wrangler = (...words: readonly string[]): Promise<string> =>
    runWrangler(config, env, environment, ["kv", ...words, "--binding", "AUTHORITIES", "--remote"]);
  return {
    async list() {
      const keys = parseAnswer(await wrangler("key", "list"), listSchema);
      return { keys, list_complete: true };
    },
    async get(keys) {
      const answer = await withFile(JSON.stringify(keys), (file) => wrangler("bulk", "get", file));
      const found = parseAnswer(answer, bulkSchema);
      return new Map(keys.map((key) => [key, found[key] ?? null]));
    },
    async put(key, value) {
      await withFile(value, (file) => wrangler("key", "put", key, "--path", file));
    },
    async delete(key) {
      await wrangler("key", "delete", key);
    },
  };
}

/** Wrangler prints its answers as log lines, which a quieter level would hide. */
const wranglerEnvironment = {
  WRANGLER_LOG: "log",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_HIDE_BANNER: "true",
};

async function runWrangler(
  config: string,
  env: string | undefined,
  environment: NodeJS.ProcessEnv,
  words: readonly string[],
): Promise<string> {
  const program = wranglerPath(config);
  const choice = ["--config", config, ...(env ? ["--env", env] : [])];
  try {
    const { stdout } = await run(
      process.execPath,
      ["--no-warnings", program, ...words, ...choice],
      {
        env: childEnvironment(environment, wranglerEnvironment),
        maxBuffer: 32 * 1024 * 1024,
        timeout: 60_000,
      },
    );
    return stdout;
  } catch (error) {
    throw new OperatorError(`wrangler ${words.slice(0, 3).join(" ")} failed:\n${outputOf(error)}`);
  }
}

/** The first error that wrangler printed. It names the key, never the value. */
function outputOf(error: unknown): string {
  const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
  const lines = stripVTControlCharacters(`${stderr}\n${stdout}`).split("\n");
  const [first = "", ...after] = lines.slice(lines.findIndex((line) => line.includes("[ERROR]")));
  const end = after.findIndex((line) => /^(?:\S*Error\b|\s+at )|\[ERROR\]|Logs were/.test(line));
  const printed = [first, ...(end < 0 ? after : after.slice(0, end))].map((line) => line.trim());
  return printed.filter((line) => line !== "").join("\n") || "wrangler printed no error";
}

/** Wrangler may print lines before its JSON. */
function parseAnswer<T>(stdout: string, form: z.ZodMiniType<T>): T {
  const answer = form.safeParse(
    jsonIn(stdout.slice(stdout.search(/^[[{]/m)), JsonBounds.unbounded),
  );
  if (answer.success) return answer.data;
  throw new OperatorError("wrangler's answer has an unknown form");
}

async function withFile<T>(content: string, use: (file: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "rampart-"));
  // A signal ends the process without the clean-up below.
  const removeNow = (): void => rmSync(folder, { recursive: true, force: true });
  process.once("exit", removeNow);
  try {
    const file = join(folder, "content");
    await writeFile(file, content, { mode: 0o600, flag: "wx" });
    return await use(file);
  } finally {
    process.off("exit", removeNow);
    await rm(folder, { recursive: true, force: true });
  }
}
