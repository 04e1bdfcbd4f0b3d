import { ConfigurationError, messageOf } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";
import type { Credential } from "../../kubernetes/client.ts";
import { TokenFile } from "../../program/files/small-file.ts";

/** Creates a credential that is read from a file at each use: a bearer token, or what `readFile` returns. */
export function credentialInFile(
  path: string,
  readFile: (path: string) => Promise<string> = TokenFile.read,
): Credential {
  return async () => {
    try {
      return await readFile(path);
    } catch (error) {
      throw new FetchError(`cannot be asked: ${messageOf(error)}`, { cause: error });
    }
  };
}

/** Reads every credential once, so that a fault is reported at the start. @throws ConfigurationError */
export async function requireCredentials(
  credentials: ReadonlyMap<string, Credential>,
): Promise<void> {
  const faults: string[] = [];
  for (const [name, read] of credentials) {
    await Promise.resolve(read()).catch((error: unknown) => {
      if (!(error instanceof FetchError)) throw error;
      faults.push(`${name}: ${error.message}`);
    });
  }
  if (faults.length > 0) throw new ConfigurationError(faults);
}
