import * as z from "zod";
import { kekOctets } from "../custody/kek.ts";
import { parseBase64 } from "../pki/base64.ts";
import type { Bytes } from "../pki/bytes.ts";

/** A KEK as configured: its id and its octets, not yet in WebCrypto's hands. */
export interface ConfiguredKek {
  readonly id: string;
  readonly octets: Bytes;
}

const entryForm = /^([A-Za-z0-9._-]{1,64}):([A-Za-z0-9+/_-]+={0,2})$/;

/** `<id>:<base64 of 32 octets>`, newest first, separated by commas. What is wrong is said without the value. */
export const kekRing: z.ZodType<ConfiguredKek[], string> = z.string().transform((text, context) => {
  const keks = text.split(",").map((entry) => parseEntry(entry.trim()));
  const complete = keks.filter((kek) => kek !== undefined);
  if (complete.length < keks.length) {
    context.addIssue(`must be <id>:<base64 of ${kekOctets} random bytes>, several by commas`);
    return z.NEVER;
  }
  if (new Set(complete.map(({ id }) => id)).size < complete.length) {
    context.addIssue("must not use an id twice");
    return z.NEVER;
  }
  return complete;
});

function parseEntry(entry: string): ConfiguredKek | undefined {
  const [, id, base64] = entryForm.exec(entry) ?? [];
  if (id === undefined || base64 === undefined) return undefined;
  const unpadded = base64.replace(/-/g, "+").replace(/_/g, "/").replace(/=+$/, "");
  const octets = parseBase64(unpadded.padEnd(Math.ceil(unpadded.length / 4) * 4, "="));
  return octets?.length === kekOctets ? { id, octets } : undefined;
}
