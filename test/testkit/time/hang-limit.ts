/**
 * How long a test, a hook or a program that a test starts may take before it counts as one that hangs.
 * No assertion rests on it: a slow machine makes tests slow, and nothing else.
 */
export const hangMilliseconds = 300_000;
