import { open } from "node:fs/promises";
import { OperatorError } from "../../foundation/operator-error.ts";
import { systemCode } from "../../host/files/system-code.ts";
import type { Source } from "./plugged-in-material.ts";

/**
 * A whole file as text. Links are followed, because Kubernetes mounts files as links.
 *
 * @returns `undefined` when the file does not exist.
 * @throws OperatorError for a directory or device, an unreadable file, text that is not UTF-8, and a file
 *   above the limit.
 */
export async function loadFile(path: string, maximumOctets: number): Promise<Source | undefined> {
  try {
    return { name: path, text: await readAtMost(path, maximumOctets) };
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    const code = codeOf(error);
    if (code === "ENOENT") return undefined;
    throw new OperatorError(`${path}: cannot be read (${code})`);
  }
}

/** Reads up to one octet more than allowed, so that a file that grows meanwhile is refused as well. */
async function readAtMost(path: string, maximumOctets: number): Promise<string> {
  const file = await open(path);
  try {
    const status = await file.stat();
    // A pipe lets `<(kubectl get secret -o yaml)` keep the key off the disk.
    if (!status.isFile() && !status.isFIFO()) throw new OperatorError(`${path}: is not a file`);
    const octets = Buffer.alloc(maximumOctets + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < octets.length; length += read) {
      ({ bytesRead: read } = await file.read(octets, length, octets.length - length, null));
    }
    if (length > maximumOctets) {
      throw new OperatorError(`${path}: is larger than ${maximumOctets / 1024} KiB`);
    }
    return utf8(path, octets.subarray(0, length));
  } finally {
    await file.close();
  }
}

/** The text of these octets. @throws OperatorError for octets that are not UTF-8, mostly a key in DER. */
export function utf8(name: string, octets: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(octets);
  } catch {
    throw new OperatorError(`${name}: is not text; PEM is needed, not DER`);
  }
}

const codeOf = (error: unknown): string => systemCode(error) ?? "unknown fault";
