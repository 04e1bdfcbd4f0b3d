import { appendFileSync } from "node:fs";
import { messageOf } from "../../src/foundation/errors.ts";
import { MissingProgram } from "./software.ts";

/** The result of one client against one server: success, or the faults. */
export interface Outcome {
  readonly client: string;
  readonly server: string;
  readonly passed: number;
  readonly faults: readonly string[];
  /** The reason why this machine could not run it. */
  readonly missing?: string;
  /** The reason why it was not played, which a gate accepts as well. */
  readonly notPlayed?: string;
}

/** Names the file in which a suite leaves its outcomes for the runner's table. */
export const outcomesVariable = "RAMPART_INTEROP_OUTCOMES";

const { CI, RAMPART_CI } = process.env;

/** Whether missing programs are faults, as in a gate, and not on a laptop. */
export const isGate: boolean = CI === "true" || RAMPART_CI !== undefined;

/** Ends a suite: hands the outcomes to the runner, or prints them if there is none. */
export function report(outcomes: readonly Outcome[]): void {
  const file = process.env[outcomesVariable];
  if (file === undefined) console.log(`\n${tableOf(outcomes)}`);
  else appendFileSync(file, outcomes.map((outcome) => `${JSON.stringify(outcome)}\n`).join(""));
  const isSomething = outcomes.length > 0;
  if (!isSomething) console.log("nothing was played: no row has this part in its name");
  process.exitCode = isSomething && outcomes.every(isAcceptable) ? 0 : 1;
}

/** The outcome of a play that counts what passed; what it throws is the fault, or the reason why it could not be run. */
export async function played(
  names: Pick<Outcome, "client" | "server">,
  play: () => Promise<Omit<Outcome, "client" | "server">>,
): Promise<Outcome> {
  try {
    return { ...names, ...(await play()) };
  } catch (error) {
    const nothing = { ...names, passed: 0 };
    if (error instanceof MissingProgram) return { ...nothing, faults: [], missing: error.message };
    return { ...nothing, faults: [messageOf(error)] };
  }
}

const isPlayed = ({ missing, notPlayed }: Outcome): boolean =>
  missing === undefined && notPlayed === undefined;

/** Formats client × server × outcome in columns: first what was played, then what was not, with the reason. Faults are below. */
export function tableOf(outcomes: readonly Outcome[]): string {
  const ordered = [...outcomes.filter(isPlayed), ...outcomes.filter((each) => !isPlayed(each))];
  const rows = [["client", "server", "outcome"], ...ordered.map(rowOf)];
  const widths = [0, 1].map((i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const notes = outcomes.flatMap(({ client, server, faults }) =>
    faults.map((fault) => `${client}, ${server}: ${fault}`),
  );
  return [...lines, ...(notes.length > 0 ? ["", ...notes] : [])].join("\n");
}

function rowOf({ client, server, passed, faults, missing, notPlayed }: Outcome): string[] {
  if (notPlayed !== undefined) return [client, server, `not played: ${notPlayed}`];
  if (missing !== undefined) return [client, server, `not run: ${missing}`];
  const total = passed + faults.length;
  return [
    client,
    server,
    `${passed > 0 && faults.length === 0 ? "ok" : "FAILED"}: ${passed} of ${total}`,
  ];
}

/** An outcome of nothing shows nothing, unless it says why. */
export function isAcceptable({ passed, faults, missing, notPlayed }: Outcome): boolean {
  if (missing !== undefined) return faults.length === 0 && !isGate;
  return faults.length === 0 && (passed > 0 || notPlayed !== undefined);
}
