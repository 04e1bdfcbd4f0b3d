import { readFile, stat } from "node:fs/promises";
import { OperatorError } from "../../foundation/operator-error.ts";
import { systemCode } from "./system-code.ts";

/**
 * Reads a file as text. A folder, a pipe or a longer file is refused before it is read.
 *
 * @throws OperatorError It names the file and never quotes it. Its cause is the system's error, if any.
 */
export async function readSmallFile(path: string, maximumOctets: number): Promise<string> {
  try {
    const found = await stat(path);
    if (found.isFile() && found.size <= maximumOctets) return await readFile(path, "utf8");
  } catch (cause) {
    const why = systemCode(cause) ?? "no reason given";
    throw new OperatorError(`${path} cannot be read: ${why}`, { cause });
  }
  throw new OperatorError(`${path} is not a file of at most ${maximumOctets} octets`);
}
