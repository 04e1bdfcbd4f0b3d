import { OperatorError } from "../../foundation/operator-error.ts";
import { bearerToken } from "../../foundation/text/bearer-token.ts";
import { readSmallFile, unlessMissing } from "./small-file.ts";

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
  const text = await unlessMissing(readSmallFile(path, maximumOctets));
  const token = text?.trim();
  return token ? requireToken(token, path) : undefined;
}

function requireToken(text: string, path: string): string {
  if (bearerToken.test(text)) return text;
  throw new OperatorError(`${path} must hold a bearer token on one line`);
}
