import { readFileSync, writeFileSync } from "node:fs";
import { parse } from "yaml";
import { Finding, findingNames } from "../src/status/finding.ts";

const rules = new URL("../deploy/observability/rules.yaml", import.meta.url);
const page = new URL("../docs/how-to/troubleshoot.md", import.meta.url);

interface Rule {
  readonly alert?: string;
  readonly annotations?: { readonly description: string; readonly action: string };
}

/** The page for troubles, with a row for each finding of the doctor, and a section for each alert: what its rule says of it. */
export const withFindingsAndAlerts = (text: string): string =>
  withPart(withPart(text, "findings", findingRows()), "alerts", alertSections(text));

/** A page with another part between the two comments that have its name. */
export const withPart = (text: string, name: string, part: string): string =>
  text.replace(
    new RegExp(`(<!-- ${name} -->\\n)[\\s\\S]*(<!-- end of ${name} -->)`),
    (_, begin, end) => `${begin}\n${part}\n\n${end}`,
  );

function findingRows(): string {
  const rows = findingNames.map((name) => {
    const { severity, why } = Finding.of(name, "", "");
    return `| \`${name}\` | ${severity} | ${why} |`;
  });
  return ["| finding | severity | why it matters |", "| --- | --- | --- |", ...rows].join("\n");
}

function alertSections(text: string): string {
  const { groups } = parse(readFileSync(rules, "utf8")) as { groups: { rules: Rule[] }[] };
  const alerts = groups.flatMap((group) => group.rules);
  const headings = new Set([
    ...alerts.map(({ alert }) => alert),
    ...[...text.matchAll(/^### (.+)$/gm)].map(([, heading]) => heading),
  ]);
  const linked = (sentence: string): string =>
    sentence
      .replaceAll("docs/how-to/troubleshoot.md#{{ $labels.event }}", "the section of its `event`")
      .replace(/(?<![`\w])[\w-]+(?![`\w])/g, (word) =>
        headings.has(word) ? `[${word}](#${word.toLowerCase()})` : word,
      );
  const sections = alerts.flatMap(({ alert, annotations }) =>
    alert && annotations
      ? [`### ${alert}\n\n${annotations.description}\n\n**Do:** ${linked(annotations.action)}`]
      : [],
  );
  return sections.join("\n\n");
}

if (import.meta.main) writeFileSync(page, withFindingsAndAlerts(readFileSync(page, "utf8")));
