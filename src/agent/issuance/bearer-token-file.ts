import { readFile } from "node:fs/promises";
import { IssuanceError } from "./issuance-error.ts";

/** What an HTTP header may hold without being folded or refused. */
const tokenForm = /^[\x21-\x7e]{1,16384}$/;

/**
 * The token in a file, read on every call because the kubelet replaces it; white space around it is
 * cut off.
 *
 * @returns `undefined` for a file that is missing or empty: a client certificate may do.
 * @throws IssuanceError for what cannot be a token.
 */
export async function readBearerToken(file: string): Promise<string | undefined> {
  const token = (await readFile(file, "utf8").catch(() => "")).trim();
  if (token === "") return undefined;
  if (tokenForm.test(token)) return token;
  throw new IssuanceError("token-unusable", `what is in ${file} is not a token`);
}
