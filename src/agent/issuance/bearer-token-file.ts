import { readFile } from "node:fs/promises";
import { IssuanceError } from "./issuance-error.ts";

/** Characters that an HTTP header carries unchanged, up to a length that servers accept. */
const tokenForm = /^[\x21-\x7e]{1,16384}$/;

/**
 * Reads the token in a file, without the white space around it. Each call reads it anew, because the
 * kubelet replaces the file.
 *
 * @returns `undefined` for a missing or empty file: a client certificate may suffice.
 * @throws IssuanceError for text that cannot be a token.
 */
export async function readBearerToken(file: string): Promise<string | undefined> {
  const token = (await readFile(file, "utf8").catch(() => "")).trim();
  if (token === "") return undefined;
  if (tokenForm.test(token)) return token;
  throw new IssuanceError("token-unusable", `the content of ${file} is not a token`);
}
