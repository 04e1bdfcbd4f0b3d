import type * as z from "zod/mini";
import { parsedText } from "../../foundation/text/parsed-text.ts";

/** The spellings of `strconv.ParseBool`. */
const booleans: ReadonlyMap<string, boolean> = new Map([
  ...["1", "t", "T", "true", "TRUE", "True"].map((text) => [text, true] as const),
  ...["0", "f", "F", "false", "FALSE", "False"].map((text) => [text, false] as const),
]);

/** A boolean as Go reads it. */
export const goBoolean: z.ZodMiniType<boolean, string> = parsedText(
  (text) => booleans.get(text),
  "must be true or false",
);

const amount = String.raw`(?:\d+\.?\d*|\.\d+)`;
const durationForm = new RegExp(String.raw`^\+?(?:${amount}(?:h|m|s|ms|us|µs|μs|ns))+$`);
const durationPart = new RegExp(`(${amount})(h|ms|m|s|us|µs|μs|ns)`, "g");
const unitNanoseconds: Readonly<Record<string, number>> = {
  h: 3600e9,
  m: 60e9,
  s: 1e9,
  ms: 1e6,
  us: 1e3,
  µs: 1e3,
  μs: 1e3,
  ns: 1,
};

/** Go counts nanoseconds in 64 bits with a sign. */
const maximumNanoseconds = 2 ** 63;

/** A duration in milliseconds. The variables of pilot-agent are read as `time.ParseDuration` reads them, except below zero. */
export const goDuration: z.ZodMiniType<number, string> = parsedText(
  parseGoDuration,
  "must be a duration such as 24h, 1h30m or 100ms",
);

function parseGoDuration(text: string): number | undefined {
  if (/^\+?0$/.test(text)) return 0;
  if (!durationForm.test(text)) return undefined;
  const parts = [...text.matchAll(durationPart)];
  const nanoseconds = parts.reduce(
    (sum, [, value, unit = ""]) => sum + Number(value) * (unitNanoseconds[unit] ?? 0),
    0,
  );
  return nanoseconds < maximumNanoseconds ? Math.round(nanoseconds) / 1e6 : undefined;
}

const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

/** A decimal number as Go reads it. */
export const goNumber: z.ZodMiniType<number, string> = parsedText((text) => {
  const value = decimal.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value : undefined;
}, "must be a number");
