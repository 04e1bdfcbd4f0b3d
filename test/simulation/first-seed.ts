import fc from "fast-check";

/** The first seed of the histories in tests: the one of all properties, or another in each run where theirs is random. */
export const firstSeed: number =
  fc.readConfigureGlobal()?.seed ?? 1 + Math.floor(Math.random() * 1e9);
