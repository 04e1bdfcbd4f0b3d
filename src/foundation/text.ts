import * as z from "zod/mini";
import { isSafeToFetch } from "./addresses.ts";
import { JsonBounds, parseJson } from "./json.ts";

const text = z.string();

/** A schema of texts that `parse` converts. If `parse` returns `undefined`, the fault is the sentence. */
export function parsedText<Parsed>(
  parse: (text: string) => Parsed | undefined,
  sentence: string,
): z.ZodMiniType<Parsed, string> {
  const parsing = z.transform((value: string, context) => {
    const parsed = parse(value);
    return parsed === undefined ? refuse(context, sentence) : parsed;
  });
  return z.pipe(text, parsing);
}

/** Reports a value as a fault within a zod transformation. The sentence must not quote the value. */
export function refuse(context: z.core.ParsePayload, sentence: string): never {
  context.issues.push({ code: "custom", message: sentence, input: context.value });
  return z.NEVER;
}

/** A value, or its JSON in a string: `.dev.vars` and environment variables hold only strings. Any other string is refused. */
export const jsonText: z.ZodMiniType<unknown> = z.pipe(z.unknown(), z.transform(fromText));

function fromText(value: unknown, context: z.core.ParsePayload): unknown {
  if (typeof value !== "string") return value;
  try {
    return parseJson(value, JsonBounds.unbounded);
  } catch (error) {
    // The parser's message is not passed on: it quotes the text, in which there may be a secret.
    if (!(error instanceof SyntaxError)) return refuse(context, "cannot be read");
    return refuse(context, "must be JSON, with no name twice in one object");
  }
}

/** A URL without a query under which paths are fetched. Slashes at its end are removed. */
export const baseUrl: z.ZodMiniType<string, string> = z.string().check(
  z.refine(isSafeToFetch, "must be an https URL"),
  z.refine((url) => !url.includes("?"), "must have no query"),
  z.overwrite((url) => url.replace(/\/+$/, "")),
);

const amount = String.raw`\d+(?:\.\d+)?`;

/** Go's units, the longest first, and each at most once: that is how Go itself writes a duration. */
const pattern = new RegExp(
  `^(?:${amount}h)?(?:${amount}m)?(?:${amount}s)?(?:${amount}ms)?(?:${amount}[uµμ]s)?(?:${amount}ns)?$`,
);

const durationPart = /(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|μs|ns)/g;
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

/** Go counts nanoseconds in 64 bits with a sign: about 292 years. */
const maximumNanoseconds = 2 ** 63;

/** Durations as Go writes them. */
export const Duration = {
  /**
   * Milliseconds of a duration as Go writes it, or `undefined` for anything else. It refuses a sign, a number without a
   * unit (except `0`), an amount that begins or ends with its point, and a duration longer than Go can hold.
   */
  parse: parseDuration,

  /** A duration (`24h`, `1h30m`, `1.5h`, `100ms`) in milliseconds. */
  milliseconds: parsedText(parseDuration, "must be a duration such as 24h, 1h30m or 100ms"),

  /** A duration in seconds. It refuses parts of a second, because times of X.509 have none. */
  seconds: parsedText(
    parseWholeSeconds,
    "must be a duration in whole seconds, such as 24h, 90m or 1h30m",
  ),

  /** Milliseconds of the parts of a duration in Go's forms; other text is skipped. `undefined` for more than Go can hold. */
  sum(text: string): number | undefined {
    const nanoseconds = [...text.matchAll(durationPart)].reduce(
      (sum, [, value, unit = ""]) => sum + Number(value) * (unitNanoseconds[unit] ?? 0),
      0,
    );
    return nanoseconds < maximumNanoseconds ? Math.round(nanoseconds) / 1e6 : undefined;
  },
};

function parseDuration(text: string): number | undefined {
  if (text === "0") return 0;
  return text !== "" && pattern.test(text) ? Duration.sum(text) : undefined;
}

function parseWholeSeconds(text: string): number | undefined {
  const milliseconds = parseDuration(text);
  return milliseconds !== undefined && milliseconds % 1000 === 0 ? milliseconds / 1000 : undefined;
}

/** An instant with its offset from UTC (RFC 3339). An instant of TOML is taken as its text. */
export const instant: z.ZodMiniType<Date> = z.pipe(
  z.transform((value: unknown) => (value instanceof Date ? value.toISOString() : value)),
  z.pipe(
    z.iso.datetime({ offset: true, error: "must be an instant, such as 2027-01-31T12:00:00Z" }),
    z.transform((text) => new Date(text)),
  ),
);
