import { readFile, stat } from "node:fs/promises";
import { credentialText } from "../../config/cluster-access.ts";
import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { FetchError } from "../../foundation/json-fetch.ts";
import { systemCode } from "../../host/system-code.ts";
import type { Credential } from "../../kubernetes/client.ts";

/** Names the file of a credential: the credential's own name, and `_FILE`. */
export const credentialFileName: RegExp = /^(CLUSTER_CREDENTIAL_[A-Z0-9_]{1,64})_FILE$/;

const maximumOctets = 16_384;

/** A bearer token in a file, read whenever it is needed: a kubelet or Vault's agent replaces it. */
export function credentialInFile(path: string): Credential {
  return async () => {
    const parsed = credentialText.safeParse((await readText(path)).trim());
    if (parsed.success) return parsed.data;
    throw new FetchError(`cannot be asked: ${path} must hold a bearer token on one line`);
  };
}

async function readText(path: string): Promise<string> {
  try {
    const about = await stat(path);
    return about.isFile() && about.size <= maximumOctets ? await readFile(path, "utf8") : "";
  } catch (error) {
    const why = systemCode(error) ?? "no reason given";
    throw new FetchError(`cannot be asked: ${path} cannot be read: ${why}`, { cause: error });
  }
}

/** At the start, when somebody is there to see it. @throws ConfigurationError */
export async function requireCredentials(
  credentials: ReadonlyMap<string, Credential>,
): Promise<void> {
  const faults: string[] = [];
  for (const [name, read] of credentials) {
    await Promise.resolve(read()).catch((error: unknown) => {
      if (!(error instanceof FetchError)) throw error;
      faults.push(`${name}: its cluster ${error.message}`);
    });
  }
  if (faults.length > 0) throw new ConfigurationError(faults);
}
