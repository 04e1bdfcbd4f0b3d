import { readFile } from "node:fs/promises";
import { parse, TomlDate, TomlError } from "smol-toml";
import { credentialName } from "../../config/cluster-access.ts";
import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { systemCode } from "../../host/system-code.ts";
import { credentialFileName } from "./credential-file.ts";

/** Keys whose values come from the environment, and never from a file that is shown around. */
const isSecret = (key: string): boolean => key === "KEK" || credentialName.test(key);

/** What the environment may say: secrets, and where they are. */
const isOfEnvironment = (key: string): boolean => isSecret(key) || credentialFileName.test(key);

/**
 * The keys and values of a `rampart.toml`, with the secrets of the environment among them; nothing
 * is checked yet.
 *
 * @throws ConfigurationError for a file that cannot be read, is no TOML, or holds a secret.
 */
export async function readConfigurationFile(
  path: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Record<string, unknown>> {
  const written = parseToml(await readText(path), path);
  const misplaced = Object.keys(written).filter(isSecret);
  if (misplaced.length > 0) {
    throw new ConfigurationError(
      misplaced.map((key) => `${key}: is a secret, which belongs in the environment`),
    );
  }
  const fromEnvironment = Object.entries(environment).flatMap(([key, value]) =>
    isOfEnvironment(key) && value !== undefined ? [[key, value.trim()]] : [],
  );
  return { ...written, ...Object.fromEntries(fromEnvironment) };
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const why = systemCode(error) ?? "no reason given";
    throw new ConfigurationError([`${path}: cannot be read: ${why}`]);
  }
}

/** The parser's own message quotes the line, which may hold what belongs in no log. */
function parseToml(text: string, path: string): Record<string, unknown> {
  try {
    return Object.fromEntries(Object.entries(parse(text)).map(([key, v]) => [key, plain(v)]));
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    throw new ConfigurationError([`${path}:${error.line}:${error.column}: is not TOML`]);
  }
}

/** TOML has dates of its own; the configuration knows them as text, on every platform. */
function plain(value: unknown): unknown {
  return value instanceof TomlDate ? value.toISOString() : value;
}
