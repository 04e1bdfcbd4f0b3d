import type { Bytes } from "../pki/encoding/bytes.ts";
import { LogError } from "./log-error.ts";

/** The length of the longest entry: its length takes two octets. */
export const maximumEntryOctets = 65_535;

/** Entries as a bundle, each after its length (C2SP tlog-tiles, "Log Entries"). */
export function formatBundle(entries: readonly Uint8Array[]): Bytes {
  const octets = new Uint8Array(entries.reduce((sum, { length }) => sum + 2 + length, 0));
  const view = new DataView(octets.buffer);
  let at = 0;
  for (const entry of entries) {
    if (entry.length > maximumEntryOctets) throw new Error("an entry that is too long for a log");
    view.setUint16(at, entry.length);
    octets.set(entry, at + 2);
    at += 2 + entry.length;
  }
  return octets;
}

/** The entries of a bundle. @throws LogError `form` for another number of entries. */
export function parseBundle(octets: Uint8Array, width: number): readonly Bytes[] {
  const view = new DataView(octets.buffer, octets.byteOffset, octets.length);
  const entries: Bytes[] = [];
  let at = 0;
  while (at + 2 <= octets.length) {
    const end = at + 2 + view.getUint16(at);
    if (end > octets.length) break;
    entries.push(octets.slice(at + 2, end) as Bytes);
    at = end;
  }
  if (at === octets.length && entries.length === width) return entries;
  throw new LogError("form", `not a bundle of ${width} entries`);
}
