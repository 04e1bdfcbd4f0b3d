import { OperatorError } from "../../../foundation/errors.ts";
import { type FileKinds, readSmallOctets } from "../../../program/files/small-file.ts";
import type { Source } from "./plugged-in-material.ts";

/**
 * A whole file or pipe as text. Links are followed, because Kubernetes mounts files as links.
 *
 * @throws OperatorError as {@link readSmallOctets}, and for text that is not UTF-8.
 */
export async function loadSource(
  path: string,
  maximumOctets: number,
  kinds: FileKinds = { mayBePipe: true },
): Promise<Source> {
  const octets = await readSmallOctets(path, maximumOctets, kinds);
  return { name: path, text: utf8(path, octets) };
}

/** The text of these octets. @throws OperatorError for octets that are not UTF-8, mostly a key in DER. */
export function utf8(name: string, octets: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(octets);
  } catch {
    throw new OperatorError(`${name}: is not text; PEM is needed, not DER`);
  }
}
