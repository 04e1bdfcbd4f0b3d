/**
 * The seconds of the first preference `wait` in a header `Prefer` or `Preference-Applied` (RFC 7240
 * §2, §4.3). The caller is willing to wait for so long.
 *
 * @returns `undefined` without that preference, or if it is no whole number of seconds.
 */
export function parseWaitSeconds(header: string | null | undefined): number | undefined {
  const preferences = header?.split(",").map((preference) => preference.split(";", 1)[0]?.trim());
  const wait = preferences?.find((preference) => /^wait(?:\s*=|$)/i.test(preference ?? ""));
  const [, digits] = /^wait\s*=\s*(\d+)$/i.exec(wait ?? "") ?? [];
  return digits === undefined ? undefined : Number(digits);
}
