import { OperatorError } from "../../foundation/operator-error.ts";
import { bearerToken } from "../../foundation/text/bearer-token.ts";
import { readSmallFile } from "./small-file.ts";
import { systemCode } from "./system-code.ts";

const maximumOctets = 16_384;

/**
 * Reads the bearer token in a file, without the white space around it. Each call reads it anew, because
 * a kubelet or Vault's agent replaces the file.
 *
 * @throws OperatorError for a file that cannot be read, or holds no token.
 */
export async function readTokenFile(path: string): Promise<string> {
  return requireToken((await readSmallFile(path, maximumOctets)).trim(), path);
}

/** {@link readTokenFile}, but `undefined` for a missing or empty file. */
export async function readTokenFileIfAny(path: string): Promise<string | undefined> {
  const text = await readSmallFile(path, maximumOctets).catch((error: unknown) => {
    if (error instanceof OperatorError && systemCode(error.cause) === "ENOENT") return "";
    throw error;
  });
  const token = text.trim();
  return token === "" ? undefined : requireToken(token, path);
}

function requireToken(text: string, path: string): string {
  if (bearerToken.test(text)) return text;
  throw new OperatorError(`${path} must hold a bearer token on one line`);
}
