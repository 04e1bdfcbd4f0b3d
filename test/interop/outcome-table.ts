import { messageOf } from "../../src/foundation/errors.ts";
import { report, type Outcome as SharedOutcome } from "./outcomes.ts";
import { MissingProgram } from "./software.ts";

/** One claim, and whether the suite has shown it. */
export interface Outcome {
  readonly client: string;
  readonly server: string;
  readonly what: string;
  /** A gate accepts what was not played, and nothing that this machine could not run. */
  readonly result: "ok" | "FAILED" | "NOT RUN" | "not played";
  readonly detail: string;
}

/** Who is played against whom, and what that is to show. */
export type Claim = Pick<Outcome, "client" | "server" | "what">;

/** A claim, and the play that shows it, which may resolve with what was seen. What it throws is the fault. */
export type Row<Stage = unknown> = readonly [
  what: string,
  play: (stage: Stage) => Promise<unknown>,
];

/** Plays rows in their order: a later one may need what an earlier one has made. */
export async function playRows<Stage = undefined>(
  names: Omit<Claim, "what">,
  rows: readonly Row<Stage>[],
  stage?: Stage,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [what, play] of rows)
    outcomes.push(await shown({ ...names, what }, () => play(stage as Stage)));
  return outcomes;
}

/** Plays what finds its programs itself. @returns One outcome in place of all where that fails. */
export const playAll = (
  names: Omit<Claim, "what">,
  play: () => Promise<Outcome[]>,
): Promise<Outcome[]> =>
  play().catch((error: unknown) => [faultOf({ ...names, what: "all" }, error)]);

/** Plays for a claim. Where a program is missing, it was not run. */
export async function shown(claim: Claim, play: () => Promise<unknown>): Promise<Outcome> {
  const outcome = await play().then(
    (seen): Outcome => ({ ...claim, result: "ok", detail: String(seen ?? "") }),
    (error: unknown) => faultOf(claim, error),
  );
  console.error(`${outcome.result}: ${claim.what}: ${outcome.detail}`);
  return outcome;
}

const faultOf = (claim: Claim, error: unknown): Outcome => ({
  ...claim,
  result: error instanceof MissingProgram ? "NOT RUN" : "FAILED",
  detail: messageOf(error),
});

export const notRun = (claim: Claim, missing: string): Outcome => ({
  ...claim,
  result: "NOT RUN",
  detail: missing,
});

/** Reports to the table of all suites. */
export const reportOutcomes = (outcomes: readonly Outcome[]): void =>
  report([...Map.groupBy(outcomes, groupOf).values()].flatMap(asRow));

/** What was played by one client against one server is one row; each claim that was not is a row of its own. */
const groupOf = ({ client, server, what, result }: Outcome): string =>
  [client, server, ...(result === "ok" || result === "FAILED" ? [] : [what])].join("\n");

/** A group of results, in the form of the table of all suites. */
function asRow(outcomes: readonly Outcome[]): SharedOutcome[] {
  const [first] = outcomes;
  if (!first) return [];
  const { client, server, what, result, detail } = first;
  const left = { client, server: `${server}: ${what}`, passed: 0, faults: [] };
  if (result === "NOT RUN") return [{ ...left, missing: detail }];
  if (result === "not played") return [{ ...left, notPlayed: detail }];
  const passed = outcomes.filter((each) => each.result === "ok").length;
  const failed = outcomes.filter((each) => each.result === "FAILED");
  return [{ client, server, passed, faults: failed.map((each) => `${each.what}: ${each.detail}`) }];
}
