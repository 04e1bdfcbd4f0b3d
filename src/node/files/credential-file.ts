import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { messageOf } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/http/json-fetch.ts";
import type { Credential } from "../../kubernetes/client.ts";
import { readTokenFile } from "../../program/files/token-file.ts";

/** The key for the file of a credential: the credential's own name, and `_FILE`. */
export const credentialFileName: RegExp =
  /^(CLUSTER_CREDENTIAL_[A-Z0-9_]{1,64}|UPSTREAM_CREDENTIAL)_FILE$/;

/** The credential in a file. */
export function credentialInFile(path: string): Credential {
  return async () => {
    try {
      return await readTokenFile(path);
    } catch (error) {
      throw new FetchError(`cannot be asked: ${messageOf(error)}`, { cause: error });
    }
  };
}

/** Reads every credential once at the start, while an operator watches. @throws ConfigurationError */
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
