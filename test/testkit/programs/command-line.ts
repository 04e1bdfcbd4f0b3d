import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { lastingFolder } from "../temporary-folder.ts";
import { hangMilliseconds } from "../time/hang-limit.ts";
import { run } from "./child-process.ts";
import { MemoryTerminal } from "./memory-terminal.ts";
import { program } from "./rampart-process.ts";

/** The folder of an operator. */
export interface OperatorFolder {
  readonly path: string;
  readonly config: string;
  /** The texts that no output may hold. */
  readonly secrets: string[];
}

export interface Answer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const wranglerToml = `name = "rampart"
main = "src/worker/main.ts"
compatibility_date = "2026-11-17"

[[kv_namespaces]]
binding = "AUTHORITIES"
id = "0123456789abcdef0123456789abcdef"

[vars]
TRUST_DOMAIN = "cluster.local"
PROPAGATION_INTERVAL = "0s"

[[vars.ISSUERS]]
issuer = "https://issuer.example.com"
`;

/** Creates a KEK, whose octets no output of the folder may hold. */
export function createKekEntry({ secrets }: OperatorFolder, id: string): string {
  const octets = randomBytes(32).toString("base64");
  secrets.push(octets);
  return `${id}:${octets}`;
}

/** @param toml A configuration; by default one that works. */
export async function createOperatorFolder(toml: string = wranglerToml): Promise<OperatorFolder> {
  const path = await lastingFolder();
  const folder = {
    path,
    config: join(path, "wrangler.toml"),
    secrets: ["PRIVATE KEY", "sealedKey"],
  };
  await mkdir(join(path, "home"));
  await writeFile(folder.config, toml);
  await configureKeks(folder, createKekEntry(folder, "k1"));
  return folder;
}

export const configureKeks = ({ path }: OperatorFolder, ...entries: readonly string[]) =>
  writeFile(join(path, ".dev.vars"), `KEK="${entries.join(",")}"\n`, { mode: 0o600 });

/** The working configuration with one replacement. */
export const withConfiguration = (from: string | RegExp, to: string): string =>
  wranglerToml.replace(from, to);

/**
 * Runs `rampart` as a user does, in its own process and without a terminal.
 *
 * @throws Error if its output holds a secret.
 */
export async function rampart(
  folder: OperatorFolder,
  words: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const { exitCode, stdout, stderr } = await run(process.execPath, [program, ...words.split(" ")], {
    folder: folder.path,
    environment: {
      PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
      HOME: join(folder.path, "home"),
      ...environment,
    },
    timeoutSeconds: hangMilliseconds / 1000,
  });
  return withoutSecrets(folder, words, environment, { code: exitCode, stdout, stderr });
}

/**
 * Runs a verb in this process, which is many times quicker. A word that begins with `./` is a path of the folder.
 *
 * @throws Error if its output holds a secret.
 */
export async function rampartHere(
  folder: OperatorFolder,
  words: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const typed = words
    .split(" ")
    .map((word) => (word.startsWith("./") ? join(folder.path, word) : word));
  const terminal = await MemoryTerminal.ran(typed, { environment });
  const { printed: stdout, said: stderr, exitCode } = terminal;
  const code = Number(exitCode ?? 0);
  return withoutSecrets(folder, words, environment, { code, stdout, stderr });
}

function withoutSecrets(
  { secrets }: OperatorFolder,
  words: string,
  environment: Readonly<Record<string, string>>,
  answer: Answer,
): Answer {
  const told = [...secrets, ...Object.values(environment).filter((value) => value.length > 20)];
  if (told.some((secret) => `${answer.stdout}${answer.stderr}`.includes(secret))) {
    throw new Error(`rampart ${words} tells a secret`);
  }
  return answer;
}
