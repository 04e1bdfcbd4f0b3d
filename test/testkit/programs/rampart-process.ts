import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { inject, onTestFinished } from "vitest";
import { randomKek } from "../configuration.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import {
  type Child,
  type ChildOptions,
  type RunOptions,
  runWell,
  startChild,
} from "./child-process.ts";
import { withoutBuilds } from "./environment.ts";

/** `rampart` of the checkout, module by module. */
export const sourceProgram: string = join(import.meta.dirname, "../../../src/cli/main.ts");

/** `rampart` as tests start it. The suites of interop start the modules. */
export const program: string =
  process.env["VITEST"] && inject("programUrl") ? await bundledProgram() : sourceProgram;

async function bundledProgram(): Promise<string> {
  const response = await fetch(inject("programUrl"));
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

interface RampartProcess extends Child {
  /** `host:port` behind this word in its log, as soon as it is there. Rejects if the process ends before. */
  readonly addressOf: (name: string) => Promise<string>;
  readonly portOf: (name: string) => Promise<number>;
}

/** The words before the verb: this Node, and the program. */
const usualCommand: readonly string[] = [process.execPath, program];

interface LaunchOptions extends ChildOptions {
  readonly descriptors?: number;
  /** The words before the verb, for an installed program or another runtime. */
  readonly command?: readonly string[];
}

/** Starts `rampart` as an operator does. */
export function launchRampart(
  words: readonly string[],
  options: LaunchOptions = {},
): RampartProcess {
  const { descriptors, command: runtime = usualCommand, environment, ...more } = options;
  const others = { ...more, environment: withoutBuilds(environment) };
  const command = [...runtime, ...words];
  const limited = ["-c", `ulimit -n ${descriptors} && exec "$@"`, "sh", ...command];
  const child =
    descriptors === undefined
      ? startChild(command[0] ?? "", command.slice(1), others)
      : startChild("sh", limited, others);
  const addresses = new Map<string, PromiseWithResolvers<string>>();
  const told = (name: string): PromiseWithResolvers<string> => {
    const known = addresses.get(name) ?? Promise.withResolvers<string>();
    addresses.set(name, known);
    return known;
  };
  child.onLine((line) => {
    const [, name, address] = /"(\w+) on ([^"]+:\d+)"/.exec(line) ?? [];
    if (name && address) told(name).resolve(address);
  });
  const early = child.ended.then(({ exitCode, signal }) => {
    const output = child.lines.join("\n");
    throw new Error(`rampart ${words.join(" ")} ended with ${signal ?? exitCode}:\n${output}`);
  });
  early.catch(() => {});
  const addressOf = (name: string): Promise<string> => Promise.race([told(name).promise, early]);
  return {
    ...child,
    addressOf,
    portOf: async (name) => portIn(await addressOf(name)),
  };
}

const portIn = (address: string): number => Number(address.split(":").at(-1));

export const runRampart = (words: readonly string[], options: RunOptions = {}): Promise<string> =>
  runWell(process.execPath, [program, ...words], {
    ...options,
    environment: withoutBuilds(options.environment),
  });

/** Starts `rampart` with a KEK of its own. It ends with the test. */
export function startRampart(
  words: readonly string[],
  environment: NodeJS.ProcessEnv = {},
  options: Omit<Parameters<typeof launchRampart>[1], "environment"> = {},
): RampartProcess {
  const variables = { KEK: randomKek(), ...environment };
  const child = launchRampart(words, { ...options, environment: variables });
  // The first of several processes ends the others, if it is asked.
  const ending = words.includes("--processes") ? "SIGTERM" : "SIGKILL";
  onTestFinished(() => child.send(ending));
  return child;
}

/** `rampart serve` or `rampart gateway`, and where it listens. */
export interface ServerProcess extends RampartProcess {
  readonly address: string;
  readonly port: number;
  /** 0 if the configuration has none. */
  readonly plaintextPort: number;
  readonly monitoringAddress: string;
  readonly monitoringPort: number;
}

/** Starts a server as an operator does, and waits until it listens. */
export const launchServer = (
  verb: "serve" | "gateway",
  config: string,
  environment: NodeJS.ProcessEnv = {},
  command: readonly string[] = usualCommand,
): Promise<ServerProcess> =>
  whenListening(launchRampart([verb, "-c", config], { environment, command }));

async function whenListening(process: RampartProcess): Promise<ServerProcess> {
  // Callers get their port last.
  const address = await process.addressOf("gRPC");
  const monitoringAddress = await process.addressOf("monitoring");
  const [, plaintextPort] = /"plaintext on [^"]*:(\d+)"/.exec(process.lines.join("\n")) ?? [];
  return {
    ...process,
    address,
    port: portIn(address),
    plaintextPort: Number(plaintextPort ?? 0),
    monitoringAddress,
    monitoringPort: portIn(monitoringAddress),
  };
}

/** A `rampart.toml` with today as the inception date, and free ports. */
export function serveToml(store: string, values: Readonly<Record<string, unknown>>): string {
  return stringify({
    STORE_DIRECTORY: store,
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    ...values,
  });
}

/**
 * Starts `rampart serve`, and waits until it listens. It ends with the test.
 *
 * @param descriptors The most files and connections that it may have open.
 */
export async function startServe(
  config: string,
  kek: string,
  secrets: Readonly<Record<string, string>> = {},
  descriptors?: number,
): Promise<ServerProcess> {
  const options = descriptors === undefined ? {} : { descriptors };
  return whenListening(startRampart(["serve", "-c", config], { KEK: kek, ...secrets }, options));
}

/** A program of the mesh in its own process, with a file as its configuration. */
export interface ProgramProcess extends RampartProcess {
  readonly log: () => readonly Readonly<Record<string, unknown>>[];
  /** Replaces the configuration file, as an editor does. */
  readonly replace: (values: Readonly<Record<string, unknown>> | string) => Promise<void>;
  /** The sum of all series of a metric. */
  readonly metric: (name: string) => Promise<number>;
  readonly readiness: () => Promise<{ status: number; reasons: readonly string[] }>;
}

/**
 * Starts it. It ends with the test.
 *
 * @param verb Such as `gateway`. Its file is complete but for `MONITORING_LISTEN`.
 */
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
  const child = startRampart([verb, "--config", config], secrets);
  const ask = async (path: string): Promise<Response> =>
    fetch(`http://127.0.0.1:${await child.portOf("monitoring")}${path}`);
  return {
    ...child,
    replace,
    log: () => child.lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line)),
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
