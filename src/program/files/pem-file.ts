import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { OperatorError } from "../../foundation/operator-error.ts";
import { readSmallFile } from "./small-file.ts";

/** Four times the bundle of an operating system. */
export const maximumPemOctets: number = 1024 * 1024;

/** Reads certificates or a key. @throws OperatorError as {@link readSmallFile}. */
export function readPemFile(path: string): Promise<string> {
  return readSmallFile(path, maximumPemOctets);
}

/**
 * The same without a wait, where a probe or a watch needs the content now.
 *
 * @throws Error of the system, and OperatorError for what is no regular file of at most so many octets.
 */
export function readPemFileNow(path: string, maximumOctets: number = maximumPemOctets): string {
  // Otherwise to open a pipe would wait for its writer, and stop the process.
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const file = fstatSync(descriptor);
    if (file.isFile() && file.size <= maximumOctets) return readFileSync(descriptor, "utf8");
  } finally {
    closeSync(descriptor);
  }
  throw new OperatorError(`${path} is not a file of at most ${maximumOctets} octets`);
}
