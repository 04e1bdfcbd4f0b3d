import { stat } from "node:fs/promises";
import { systemCode } from "../../program/files/system-code.ts";

/** The state of a pipe, which can be read only once. */
export const pipeState = "a pipe";

/**
 * What tells two contents of a file apart without a read of it. A file that is replaced by another name, or
 * by another target of a link, has another state, as the files of a mounted ConfigMap have.
 */
export async function fileState(path: string): Promise<string> {
  try {
    const found = await stat(path, { bigint: true });
    const { dev, ino, size, mtimeNs, ctimeNs } = found;
    return found.isFIFO() ? pipeState : [dev, ino, size, mtimeNs, ctimeNs].join(" ");
  } catch (error) {
    return systemCode(error) ?? "unreadable";
  }
}
