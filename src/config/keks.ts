import * as z from "zod/mini";
import { importKek, type KekRing, kekOctets } from "../custody/kek.ts";
import { parsedText } from "../foundation/text.ts";
import { parseBase64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";

/** The KEKs of a configuration, or those of a named signer that are derived from them. */
export async function openKeks(
  { keks }: { readonly keks: readonly ConfiguredKek[] },
  signer?: string,
): Promise<KekRing> {
  const imported = keks.map(({ id, octets }) => importKek(id, octets, signer));
  const [newest, ...older] = await Promise.all(imported);
  if (!newest) throw new Error("a configuration without a KEK");
  return [newest, ...older];
}

/** A KEK as configured: its id and its octets, not yet imported. */
export interface ConfiguredKek {
  readonly id: string;
  readonly octets: Bytes;
}

const entryForm = /^([A-Za-z0-9._-]{1,64}):([A-Za-z0-9+/_-]+={0,2})$/;

/** `<id>:<base64 of 32 octets>`, newest first, separated by commas. Faults never quote the value. */
export const kekRing = parsedText(
  parseRing,
  `must be <id>:<base64 of ${kekOctets} random bytes>, several by commas`,
).check(z.refine(hasItsOwnIds, "must not use an id twice"));

function parseRing(text: string): ConfiguredKek[] | undefined {
  const keks = text.split(",").map((entry) => parseEntry(entry.trim()));
  const complete = keks.filter((kek) => kek !== undefined);
  return complete.length < keks.length ? undefined : complete;
}

function hasItsOwnIds(keks: readonly ConfiguredKek[]): boolean {
  return new Set(keks.map(({ id }) => id)).size === keks.length;
}

function parseEntry(entry: string): ConfiguredKek | undefined {
  const [, id, base64] = entryForm.exec(entry) ?? [];
  if (id === undefined || base64 === undefined) return undefined;
  const unpadded = base64.replace(/-/g, "+").replace(/_/g, "/").replace(/=+$/, "");
  const octets = parseBase64(unpadded.padEnd(Math.ceil(unpadded.length / 4) * 4, "="));
  return octets?.length === kekOctets ? { id, octets } : undefined;
}
