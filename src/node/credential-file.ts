import { readFile, stat } from "node:fs/promises";
import { FetchError } from "../authn/json-fetch.ts";
import type { Credential } from "../authn/kubernetes-api.ts";
import { credentialText } from "../config/cluster-access.ts";

const maximumOctets = 16_384;

/** A bearer token in a file, read whenever it is needed: a kubelet or an agent of Vault replaces it. */
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
    const why = error instanceof Error && "code" in error ? String(error.code) : "no reason given";
    throw new FetchError(`cannot be asked: ${path} cannot be read: ${why}`, { cause: error });
  }
}
