import { isDeepStrictEqual } from "node:util";

/** The keys and values of a configuration, unchecked. */
export type Values = Readonly<Record<string, unknown>>;

/** A configuration as a running program can apply it. */
export interface ApplicableValues {
  readonly values: Values;
  /** The keys that have changed and count only after a restart. */
  readonly awaitingRestart: readonly string[];
}

/**
 * Replaces the values of the keys that need a restart by those of the start. The others apply, because one
 * changed port must not keep a removed cluster in.
 */
export function applicableValues(
  written: Values,
  atStart: Values,
  restartKeys: readonly string[],
): ApplicableValues {
  const values: Record<string, unknown> = { ...written };
  for (const key of restartKeys) {
    if (key in atStart) values[key] = atStart[key];
    else delete values[key];
  }
  return { values, awaitingRestart: changedKeys(values, written) };
}

/** The keys whose values differ, in alphabetical order. */
export function changedKeys(before: Values, after: Values): readonly string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].filter((key) => !isDeepStrictEqual(before[key], after[key])).toSorted();
}
