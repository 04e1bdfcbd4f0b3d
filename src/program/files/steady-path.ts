import { existsSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";

/**
 * A path to what a descriptor has open, in whose place nobody can put a link meanwhile. Only Linux has one.
 *
 * @param path By which it was opened, where there is no other.
 */
export function steadyPath({ fd }: FileHandle, path: string): string {
  const steady = `/proc/self/fd/${fd}`;
  return existsSync(steady) ? steady : path;
}
