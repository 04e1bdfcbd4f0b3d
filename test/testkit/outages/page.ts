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

/** The page for troubles, with a table of what was seen. */
export function pageWith(seen: Seen, page: string): string {
  const tables = [
    "### Outages",
    tableOf("outage", seen),
    "### Dangers",
    tableOf("danger", seen),
  ].join("\n\n");
  return page.replace(
    /(<!-- outages -->\n)[\s\S]*(<!-- end of outages -->)/,
    (_, begin, end) => `${begin}\n${tables}\n\n${end}`,
  );
}

function tableOf(kind: Row["kind"], seen: Seen): string {
  const lines = rows
    .filter((row) => row.kind === kind)
    .flatMap((row) => {
      const found = seen.find(({ name }) => name === row.name);
      return found ? [lineOf(row, found)] : [];
    });
  const head = ["what is wrong", "`/readyz`", "alerts", "log", "`rampart doctor`", "what to do"];
  return [head, head.map(() => "---"), ...lines]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`)
    .join("\n");
}

function lineOf({ what, advice, cure }: Row, seen: SeenRow): readonly string[] {
  const { status, reasons, alerts, events, doctor, cured } = seen;
  return [
    what,
    status === null ? "no answer" : [String(status), ...reasons.map(quoted)].join(", "),
    list(alerts),
    list(events),
    list(doctor.findings),
    [`[${advice.name}](#${advice.anchor})`, ...(cure && cured ? [`\`${cure}\``] : [])].join("; "),
  ];
}

const list = (names: readonly string[]): string =>
  names.length > 0 ? names.map((name) => `\`${name}\``).join(", ") : "nothing";

const quoted = (sentence: string): string => `“${sentence}”`;
