import { type Row, rows } from "./rows.ts";

/** What a CA said in one row. */
export interface SeenRow {
  readonly name: string;
  /** Of `/readyz`; `null` where nobody answers. */
  readonly status: number | null;
  readonly reasons: readonly string[];
  /** `rampart_ready`. */
  readonly metric: string | null;
  readonly alerts: readonly string[];
  readonly events: readonly string[];
  /** Its exit code, the names of what it finds, and its sentences. */
  readonly doctor: {
    readonly code: number;
    readonly findings: readonly string[];
    readonly says: readonly string[];
  };
  readonly page: { readonly ready: boolean; readonly says: readonly string[] } | null;
  /** Whether the advice ended it; `null` where it is not for this machine. */
  readonly cured: boolean | null;
}

export type Seen = readonly SeenRow[];

const head = `# What says that something is wrong

\`npm run test:interop outages\` breaks a CA in each of these ways, and writes down what an operator can see two minutes later. The alerts are those that the [shipped rules](../../deploy/observability/rules.yaml)
raise within forty minutes, as \`promtool\` has it. \`node test/interop/outages/main.ts --write\` writes this page, and the gate fails once it is no longer true.

In an outage nobody gets a certificate: \`/readyz\` is not 200, \`rampart_ready\` is not 1, an alert fires, and the doctor ends with 3 or 4. In a danger the CA issues, and something says that it may end. "Cured" means that the advice was typed as it stands, and ended it.
`;

/** The page of the reference. */
export function pageOf(seen: Seen): string {
  const of = (kind: Row["kind"]) =>
    rows
      .filter((row) => row.kind === kind)
      .flatMap((row) => {
        const found = seen.find(({ name }) => name === row.name);
        return found ? [section(row, found)] : [];
      });
  return `${[head, "## Outages", ...of("outage"), "## Dangers", ...of("danger")].join("\n\n").replace(/\n{3,}/g, "\n\n")}\n`;
}

function section(row: Row, seen: SeenRow): string {
  const { status, reasons, metric, alerts, events, doctor, page, cured } = seen;
  const facts: readonly [string, string][] = [
    [
      "`/readyz`",
      status === null ? "no answer" : [String(status), ...reasons.map(quoted)].join(", "),
    ],
    ["`rampart_ready`", metric ?? "none"],
    ["alerts", list(alerts)],
    ["log", list(events)],
    [
      "`rampart doctor`",
      [`${doctor.code}: ${list(doctor.findings)}`, ...doctor.says.map(quoted)].join(", "),
    ],
    [
      "console",
      page
        ? `${page.ready ? "ready" : "not ready"}: ${page.says.map(quoted).join(", ") || "nothing else"}`
        : "no answer",
    ],
    [
      "what to do",
      `[${row.page.replace(".md#", ", ")}](${row.page})${row.cure && cured ? `; cured by ${code(row.cure)}` : ""}`,
    ],
  ];
  const lines = facts.map(([name, fact]) => `| ${name} | ${fact.replaceAll("|", "\\|")} |`);
  return [`### ${row.name}`, "", row.what, "", "| | |", "| --- | --- |", ...lines].join("\n");
}

const list = (names: readonly string[]): string =>
  names.length > 0 ? names.map(code).join(", ") : "nothing";

const code = (text: string): string => `\`${text}\``;

const quoted = (sentence: string): string => `“${sentence}”`;
