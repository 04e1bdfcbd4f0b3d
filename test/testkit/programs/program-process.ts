import { type ChildProcess, spawn } from "node:child_process";
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { stringify } from "smol-toml";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "../temporary-folder.ts";
import { compileCache } from "./environment.ts";
import { rampartProgram } from "./rampart-process.ts";

/** A program of the mesh in its own process, with a file as its configuration. It ends with the test. */
export interface ProgramProcess {
  readonly child: ChildProcess;
  /** The port behind this word in the log, as soon as it is there. */
  readonly portOf: (name: string) => Promise<number>;
  /** Every line of its log so far. */
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  /** Replaces the configuration file, as an editor does. */
  readonly replace: (values: Readonly<Record<string, unknown>> | string) => Promise<void>;
  /** The sum of all series of a metric. */
  readonly metric: (name: string) => Promise<number>;
  readonly readiness: () => Promise<{ status: number; reasons: readonly string[] }>;
}

/** @param verb Such as `gateway`. Its file is complete but for `MONITORING_LISTEN`. */
export async function startProgram(
  verb: string,
  values: Readonly<Record<string, unknown>>,
  secrets: Readonly<Record<string, string>> = {},
): Promise<ProgramProcess> {
  const config = join(await temporaryFolder(), `${verb}.toml`);
  const replace: ProgramProcess["replace"] = async (next) => {
    const complete = { MONITORING_LISTEN: "127.0.0.1:0", ...Object(next) };
    await writeFile(`${config}.new`, typeof next === "string" ? next : stringify(complete));
    await rename(`${config}.new`, config);
  };
  await replace(values);
  const { PATH } = process.env;
  const child = spawn(process.execPath, [rampartProgram, verb, "--config", config], {
    env: { PATH, ...secrets, ...compileCache },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines: Readonly<Record<string, unknown>>[] = [];
  const ports = new Map<string, PromiseWithResolvers<number>>();
  const portIn = (name: string): PromiseWithResolvers<number> => {
    const known = ports.get(name) ?? Promise.withResolvers<number>();
    ports.set(name, known);
    return known;
  };
  createInterface(child.stderr).on("line", (text) => {
    if (text.startsWith("{")) lines.push(JSON.parse(text));
    else process.stderr.write(`${verb}: ${text}\n`);
  });
  createInterface(child.stdout).on("line", (text) => {
    lines.push(JSON.parse(text));
    const [, name, port] = /"(\w+) on [^"]*:(\d+)"/.exec(text) ?? [];
    if (name) portIn(name).resolve(Number(port));
  });
  const ask = async (path: string): Promise<Response> =>
    fetch(`http://127.0.0.1:${await portIn("monitoring").promise}${path}`);
  return {
    child,
    lines,
    replace,
    portOf: (name) => portIn(name).promise,
    metric: async (name) => {
      const text = await (await ask("/metrics")).text();
      const series = text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (.+)$`, "gm"));
      return [...series].reduce((sum, [, value]) => sum + Number(value), 0);
    },
    readiness: async () => {
      const response = await ask("/readyz");
      return { status: response.status, reasons: (await response.json()).reasons };
    },
  };
}
