import { ClientError } from "../../../client/client.ts";
import { CaError, messageOf, OperatorError } from "../../../foundation/errors.ts";
import { FetchError } from "../../../foundation/fetch.ts";
import { LogError } from "../../../tlog/log-error.ts";
import { printable } from "../../terminal/text.ts";
import type { Deployed } from "./deployed.ts";

/** How a measurement compares with what is expected. A skipped row was not played, and says why. */
export type Verdict = "good" | "skipped" | "attention" | "broken";

/** What a row has found. */
export interface Measurement {
  readonly verdict: Verdict;
  readonly measured: string;
}

const measuring =
  (verdict: Verdict) =>
  (measured: string): Measurement => ({ verdict, measured });

/** Makes a measurement with the verdict `good`, with what was measured. */
export const good = measuring("good");
/** Makes the measurement of a row that was not played, with the reason. */
export const skipped = measuring("skipped");
/** Makes a measurement at which a person has to look, with what was measured. */
export const attention = measuring("attention");
/** Makes the measurement of something that does not work, with what was measured. */
export const broken = measuring("broken");

/** One check of a deployment: what is expected and why, in sentences, and the page that helps. */
export interface Row {
  readonly name: string;
  readonly expect: string;
  readonly why: string;
  readonly page: string;
  /** Whether all later rows are skipped if this one gets no answer at all. */
  readonly isRequired?: true;
  /** Measures the deployment. An error of a call, a log or a credential that it throws makes the row `broken`. */
  readonly measure: (deployed: Deployed) => Measurement | Promise<Measurement>;
}

/** A row with what was measured. */
export type PlayedRow = Omit<Row, "measure" | "isRequired"> & Measurement;

/** How long all rows may take. A row that has begun ends by its own bounds. */
const longestMilliseconds = 600_000;

/**
 * Plays rows one after the other. Beyond ten minutes, and after a required row without an answer, rows are skipped.
 * @param progress Runs the measurement of one row, and may show which.
 * @throws Errors that are no failure of a call, a log or a credential.
 */
export async function playRows(
  rows: readonly Row[],
  deployed: Deployed,
  progress: (doing: string, work: () => Promise<Measurement>) => Promise<Measurement>,
): Promise<readonly PlayedRow[]> {
  const played: PlayedRow[] = [];
  const begun = deployed.clock().getTime();
  let ending: string | undefined;
  for (const [i, { measure, isRequired, ...row }] of rows.entries()) {
    if (deployed.clock().getTime() - begun > longestMilliseconds)
      ending ??= "ten minutes were over";
    const doing = `playing row ${i + 1} of ${rows.length}, ${row.name}`;
    const work = async (): Promise<Measurement> => {
      try {
        return await measure(deployed);
      } catch (error) {
        if (!faults.some((kind) => error instanceof kind)) throw error;
        if (isRequired) ending = `the CA was not reached: see ${row.name}`;
        return broken(messageOf(error));
      }
    };
    const { verdict, measured } = ending ? skipped(ending) : await progress(doing, work);
    played.push({ ...row, verdict, measured: printable(measured) });
  }
  return played;
}

/** Errors that make a row `broken`. Any other error is a defect of this program. */
const faults = [FetchError, LogError, CaError, OperatorError, ClientError];

const rank: readonly Verdict[] = ["skipped", "good", "attention", "broken"];

/** Sorts rows by their verdict, the broken ones first and the skipped ones last. */
export const worstFirst = <Judged extends Measurement>(
  rows: readonly Judged[],
): readonly Judged[] => rows.toSorted((a, b) => rank.indexOf(b.verdict) - rank.indexOf(a.verdict));

/** The worst verdict of all rows; `skipped` for none. */
export const worstVerdict = (rows: readonly Measurement[]): Verdict =>
  worstFirst(rows)[0]?.verdict ?? "skipped";
