import type * as z from "zod/mini";
import { parsedText } from "./parsed-text.ts";

const amount = String.raw`(\d+(?:\.\d+)?)`;

/** Go's units, the longest first, and each at most once: that is how Go itself writes a duration. */
const form = new RegExp(
  `^(?:${amount}h)?(?:${amount}m)?(?:${amount}s)?(?:${amount}ms)?(?:${amount}[uµμ]s)?(?:${amount}ns)?$`,
);
const unitNanoseconds = [3600e9, 60e9, 1e9, 1e6, 1e3, 1];

/** Go counts nanoseconds in 64 bits with a sign: about 292 years. */
const maximumNanoseconds = 2 ** 63;

/** A duration (`24h`, `1h30m`, `1.5h`, `100ms`) in milliseconds. */
export const durationMilliseconds: z.ZodMiniType<number, string> = parsedText(
  parseDuration,
  "must be a duration such as 24h, 1h30m or 100ms",
);

/** A duration in seconds; it has no part of a second, because X.509 has none. */
export const durationSeconds: z.ZodMiniType<number, string> = parsedText(
  parseWholeSeconds,
  "must be a duration in whole seconds, such as 24h, 90m or 1h30m",
);

/**
 * Milliseconds of a duration as Go writes it, or `undefined` for anything else. It refuses a sign, a number
 * without a unit other than `0`, and an amount that begins or ends with its point. It refuses more than Go can
 * hold.
 */
export function parseDuration(text: string): number | undefined {
  if (text === "0") return 0;
  const [whole, ...amounts] = form.exec(text) ?? [];
  if (!whole) return undefined;
  const nanoseconds = unitNanoseconds.reduce(
    (sum, unit, i) => sum + Number(amounts[i] ?? 0) * unit,
    0,
  );
  return nanoseconds < maximumNanoseconds ? Math.round(nanoseconds) / 1e6 : undefined;
}

function parseWholeSeconds(text: string): number | undefined {
  const milliseconds = parseDuration(text);
  return milliseconds !== undefined && milliseconds % 1000 === 0 ? milliseconds / 1000 : undefined;
}
