import type * as z from "zod/mini";
import { ConfigurationError } from "../foundation/configuration-error.ts";
import { inEnglish } from "../foundation/text/zod-english.ts";

/** Keys and values, unchecked. */
export type Values = Readonly<Record<string, unknown>>;

/** The values whose keys match, and the others. */
export function partition(values: Values, isOne: (key: string) => boolean): [Values, Values] {
  const entries = Object.entries(values);
  return [
    Object.fromEntries(entries.filter(([key]) => isOne(key))),
    Object.fromEntries(entries.filter(([key]) => !isOne(key))),
  ];
}

/** @throws ConfigurationError with every fault of the values. */
export function parseForm<Output>(form: z.ZodMiniType<Output>, values: Values): Output {
  const parsed = form.safeParse(values, { ...inEnglish, reportInput: true });
  if (!parsed.success) throw new ConfigurationError(parsed.error.issues.flatMap(faultLines));
  return parsed.data;
}

/** One line for each fault, its place first. zod's messages for these forms never quote a value. */
function faultLines(issue: z.core.$ZodIssue): string[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => `${placeOf([...issue.path, key])}: is not a key of Rampart`);
  }
  const missing = issue.code === "invalid_type" && issue.input === undefined;
  return [`${placeOf(issue.path)}: ${missing ? "is required" : issue.message}`];
}

function placeOf(path: readonly PropertyKey[]): string {
  return path
    .reduce<string>(
      (place, key) => (typeof key === "number" ? `${place}[${key}]` : `${place}.${String(key)}`),
      "",
    )
    .slice(1);
}
