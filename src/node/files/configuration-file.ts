import { parse, TomlDate, TomlError } from "smol-toml";
import { Secrets } from "../../config/secrets.ts";
import { ConfigurationError, OperatorError } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { type FileKinds, SmallFile } from "../../program/files/small-file.ts";

/** Enough for a thousand tables of issuers with their keys. */
const maximumOctets = 16 * 1024 * 1024;

/** Keys that the environment may set: secrets, and the paths of files with secrets. */
const isOfEnvironment = (key: string): boolean => Secrets.has(key) || credentialFileName.test(key);

/**
 * The variables that no program reads, each with the key that its name is or resembles: a misspelt secret or
 * `<SECRET>_FILE`, or a key that only the file may set, however it is spelt.
 */
export const unreadVariables = (
  keys: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): readonly { readonly name: string; readonly key: string }[] =>
  Object.keys(environment)
    .filter((name) => environment[name] !== undefined && !isOfEnvironment(name))
    .flatMap((name) => {
      const isMeant = (key: string): boolean =>
        isLike(name, key) || (Secrets.has(key) && isLike(name, `${key}_FILE`));
      const key = keys.includes(name) ? name : keys.find(isMeant);
      return key === undefined ? [] : [{ name, key }];
    });

/** Whether a name has the letters of a short key, give or take a final S, or of a long key with one typing mistake. */
function isLike(name: string, key: string): boolean {
  const [a = "", b = ""] = [name, key].map((each) => each.toUpperCase().replaceAll(/[_-]/g, ""));
  if (b.length < 10) return [b, `${b}S`, b.replace(/S$/, "")].includes(a);
  let start = 0;
  while (start < b.length && a[start] === b[start]) start += 1;
  const [rest, ofKey] = [a.slice(start), b.slice(start)];
  const swapped = ofKey.charAt(1) + ofKey.charAt(0) + ofKey.slice(2);
  return (
    [ofKey, ofKey.slice(1)].includes(rest.slice(1)) || [ofKey.slice(1), swapped].includes(rest)
  );
}

/** Reads configuration files. */
export const ConfigurationFile = {
  /**
   * Warns of variables that look like keys of the configuration and that no program reads, because an operator who set
   * one relies on it.
   */
  warnOfUnread(
    keys: readonly string[],
    environment: Readonly<Record<string, string | undefined>>,
    { operation }: OperationLog,
  ): void {
    for (const { name, key } of unreadVariables(keys, environment)) {
      const detail = `looks like the key ${key} of the configuration, and nothing reads it in the environment`;
      operation({ event: "variable-ignored", level: "warning", name, detail });
    }
  },

  /**
   * Reads the keys and values of a `rampart.toml`, unchecked, and the secrets and their files in the environment, trimmed.
   *
   * @throws ConfigurationError for a file that cannot be read, is not TOML, or holds a secret.
   */
  async read(
    path: string,
    environment: Readonly<Record<string, string | undefined>>,
    kinds: FileKinds = { mayBePipe: true },
  ): Promise<Record<string, unknown>> {
    const written = parseToml(await readText(path, kinds), path);
    const fromEnvironment = Object.entries(environment).flatMap(([key, value]) =>
      isOfEnvironment(key) && value !== undefined ? [[key, value.trim()]] : [],
    );
    const given = Object.fromEntries(fromEnvironment);
    ConfigurationFile.refuseSecrets(written, "belongs in the environment", given);
    return { ...written, ...given };
  },

  /**
   * Requires that a configuration file has no secret. Digests of console tokens are no secrets.
   * @throws ConfigurationError for a secret, and for digests that the environment would override.
   */
  refuseSecrets(
    written: Readonly<Record<string, unknown>>,
    place: string,
    given: Readonly<Record<string, unknown>> = {},
  ): void {
    const faults = Object.entries(written).flatMap(([key, value]) => {
      if (!Secrets.has(key)) return [];
      if (key !== "CONSOLE_TOKENS" || !Secrets.areDigests(value))
        return [`${key}: is a secret, which ${place}`];
      return key in given ? [`${key}: stands in the environment as well: give one of the two`] : [];
    });
    if (faults.length > 0) throw new ConfigurationError(faults);
  },
};

async function readText(path: string, kinds: FileKinds): Promise<string> {
  try {
    return await SmallFile.read(path, maximumOctets, kinds);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    throw new ConfigurationError([error.message]);
  }
}

/** Parses TOML, without the parser's own message, which quotes the line and so perhaps a secret. */
function parseToml(text: string, path: string): Record<string, unknown> {
  try {
    return Object.fromEntries(Object.entries(parse(text)).map(([key, v]) => [key, plain(v)]));
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    throw new ConfigurationError([`${path}:${error.line}:${error.column}: is not TOML`]);
  }
}

/** Converts TOML's own dates to text, which the configuration takes on every platform. */
function plain(value: unknown): unknown {
  return value instanceof TomlDate ? value.toISOString() : value;
}

/** Matches the key for the file of a credential: the credential's own name, which it captures, and `_FILE`. */
export const credentialFileName: RegExp =
  /^(CLUSTER_CREDENTIAL_[A-Z0-9_]{1,64}|KEY_CREDENTIAL_[A-Z]{1,16}|UPSTREAM_CREDENTIAL)_FILE$/;
