import { readFileSync, writeFileSync } from "node:fs";
import { findings } from "../src/cli/verbs/log/anomalies.ts";
import { ocsfPaths } from "../src/cli/verbs/log/export/exported-event.ts";
import { withPart } from "./troubles-page.ts";

const folder = new URL("../docs/how-to/", import.meta.url);

/** The pages of the log with what the code has: findings of `log follow`, and fields that have a place in OCSF. */
export const logPages: Readonly<Record<string, (text: string) => string>> = {
  "issuance-log.md": (text) => withPart(text, "findings", findingRows()),
  "siem.md": (text) => withPart(text, "export", fieldRows()),
};

function findingRows(): string {
  const rows = Object.entries(findings).map(
    ([name, [when, act]]) => `| \`${name}\` | ${when} | ${act} |`,
  );
  return ["| finding | when | what to do |", "| --- | --- | --- |", ...rows].join("\n");
}

function fieldRows(): string {
  const { certificate, token, authority } = ocsfPaths;
  const names = new Set(Object.values(ocsfPaths).flatMap(Object.keys));
  const place = (path: string | undefined): string => (path === undefined ? "" : `\`${path}\``);
  const rows = [...names].map(
    (name) =>
      `| \`${name}\` | ${[certificate, token, authority].map((paths) => place(paths[name])).join(" | ")} |`,
  );
  const heading = "| field | certificate | token | of nobody who authenticated |";
  return [heading, "| --- | --- | --- | --- |", ...rows].join("\n");
}

if (import.meta.main) {
  for (const [name, filled] of Object.entries(logPages)) {
    const page = new URL(name, folder);
    writeFileSync(page, filled(readFileSync(page, "utf8")));
  }
}
