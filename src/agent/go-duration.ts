const unitMilliseconds: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

/** Milliseconds of a duration as Go writes it (`24h0m0s`, `1h30m`, `100ms`), or `undefined`. */
export function parseGoDuration(text: string): number | undefined {
  if (text === "0") return 0;
  if (!/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h))+$/.test(text)) return undefined;
  const parts = text.matchAll(/([\d.]+)(ms|s|m|h)/g);
  return [...parts].reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (unitMilliseconds[unit ?? ""] ?? 0),
    0,
  );
}
