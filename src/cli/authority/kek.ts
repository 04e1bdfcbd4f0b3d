import { randomBytes } from "node:crypto";
import { Command } from "commander";
import { kekRing } from "../../config/kek-ring.ts";
import { kekOctets } from "../../custody/kek.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import {
  openStore,
  requireAllOpen,
  type Session,
  type SessionOptions,
  withSession,
} from "../session/session.ts";
import { addDeploymentOptions } from "../terminal/options.ts";
import { formatTable } from "../terminal/table.ts";

interface ListOptions extends SessionOptions {
  readonly json?: boolean;
  readonly retire?: string;
}

/** How many records a KEK seals, and whether it is configured. */
interface KekReport {
  readonly id: string;
  readonly isConfigured: boolean;
  readonly records: number;
}

/** `rampart kek …`: the keys that seal the keys. */
export function kekCommand(clock: () => Date): Command {
  const kek = new Command("kek").description("the keys that seal the authorities' keys");
  kek
    .command("new")
    .argument("<id>", "a name for it, such as the month")
    .description("print a fresh KEK for the secret KEK")
    .addHelpText("after", changeHelp)
    .action(printNew);
  addDeploymentOptions(kek.command("list"))
    .description("how many records each KEK seals; every record is opened to see")
    .option("--json", "as JSON, for programs")
    .option("--retire <id>", "fail unless nothing is sealed with this KEK any more")
    .action((options: ListOptions) => withSession(options, clock, (s) => list(s, options)));
  return kek;
}

const changeHelp = `
To change the KEK without a moment in which something does not open:
  1. append the new one:   KEK=old,new   every reader can open what is to come
  2. then put it first:    KEK=new,old   the next cron run seals every record anew
  3. rampart kek list --retire <old id>  fails until no record needs the old one; wait one more
                           PROPAGATION_INTERVAL, until every place has the new records, then drop it`;

function printNew(id: string): void {
  const entry = `${id}:${randomBytes(kekOctets).toString("base64")}`;
  if (!kekRing.safeParse(entry).success) {
    throw new OperatorError("a KEK's id is 1 to 64 letters, digits, dots, - and _");
  }
  console.log(entry);
}

async function list(session: Session, { json, retire }: ListOptions): Promise<void> {
  const store = await openStore(session);
  const reports = await reportKeks(session);
  const rows = reports.map(({ id, isConfigured, records }) => [
    id,
    isConfigured ? "yes" : "NO",
    `${records}`,
  ]);
  console.log(
    json
      ? JSON.stringify(reports, undefined, 2)
      : formatTable(["KEK", "CONFIGURED", "RECORDS"], rows),
  );
  requireAllOpen(store);
  if (retire !== undefined) requireRetirable(retire, reports);
}

/** The first of the reports is about the KEK that seals. */
function requireRetirable(id: string, reports: readonly KekReport[]): void {
  const report = reports.find((each) => each.id === id);
  if (!report) throw new OperatorError(`there is no KEK ${id}, here or in any record`);
  if (report === reports[0]) throw new OperatorError(`${id} is the KEK that seals what comes next`);
  if (report.records === 0) return;
  throw new OperatorError(
    `${id} still seals records (${report.records}): the next cron run of a CA that has another first seals them anew`,
  );
}

async function reportKeks({ mint }: Session): Promise<KekReport[]> {
  const sealedWith = (await mint.store.load()).map(({ value }) => kekOf(value));
  const configured = mint.keks.map(({ id }) => id);
  return [...new Set([...configured, ...sealedWith])].map((id) => ({
    id,
    isConfigured: configured.includes(id),
    records: sealedWith.filter((each) => each === id).length,
  }));
}

/** What a record says of its KEK, which holds if it opens. */
function kekOf(value: string): string {
  try {
    return String((JSON.parse(value) as { kek?: unknown }).kek ?? "(unreadable)");
  } catch {
    return "(unreadable)";
  }
}
