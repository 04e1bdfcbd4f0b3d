/** Words of PromQL that stand where a metric could. */
const words = new Set(
  "and or unless on ignoring group_left group_right bool offset by without".split(" "),
);

/** The names of the metrics in an expression of PromQL. It reads what this repository writes, no more. */
export function metricNamesIn(expression: string): string[] {
  const bare = expression
    .replaceAll(/"(?:[^"\\]|\\.)*"/g, "")
    .replaceAll(/\{[^}]*\}/g, "")
    .replaceAll(/\[[^\]]*\]/g, "")
    .replaceAll(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/g, "");
  const names = bare.matchAll(/(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])/g);
  return [...names].map(([, name = ""]) => name).filter((name) => !words.has(name));
}
