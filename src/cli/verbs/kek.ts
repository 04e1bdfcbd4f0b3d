import { randomBytes } from "node:crypto";
import { Command } from "commander";
import { kekRing } from "../../config/keks.ts";
import { kekOctets } from "../../custody/kek.ts";
import { OperatorError } from "../../foundation/errors.ts";
import {
  openStore,
  requireAllOpen,
  type Session,
  type SessionOptions,
  withSession,
} from "../session/session.ts";
import {
  addDeploymentOptions,
  addExitCodes,
  exitCodes,
  usageError,
} from "../terminal/command-line.ts";
import { formatTable } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";

interface ListOptions extends SessionOptions {
  readonly retire?: string;
}

/** The number of records that a KEK seals, and whether the KEK is configured. */
interface KekReport {
  readonly id: string;
  readonly isConfigured: boolean;
  readonly records: number;
}

/** `rampart kek …`: the keys that seal the keys. */
export function kekCommand(terminal: Terminal): Command {
  const kek = new Command("kek").description("the keys that seal the authorities' keys");
  kek
    .command("new")
    .argument("<id>", "a name for it, such as the month")
    .description("print a fresh KEK for the secret KEK")
    .addHelpText("after", changeHelp)
    .action((id: string) => printNew(terminal, id));
  addExitCodes(addDeploymentOptions(kek.command("list")), {
    attention: "With --retire: a record is still sealed with this KEK.",
  })
    .description("count the records that each KEK seals; every record is opened as a check")
    .option("--json", "print JSON")
    .option("--retire <id>", "fail while any record is still sealed with this KEK")
    .action((options: ListOptions) => withSession(terminal, options, (s) => list(s, options)));
  return kek;
}

const changeHelp = `
To change the KEK while every reader can open every record:
  1. append the new KEK:   KEK=old,new   every reader can open records under either
  2. then put it first:    KEK=new,old   the next cron run seals every record anew
  3. rampart kek list --retire <old id>  fails until no record needs the old KEK; then wait one more
                           PROPAGATION_INTERVAL, until every reader has the new records, and drop it`;

function printNew(terminal: Terminal, id: string): void {
  const entry = `${id}:${randomBytes(kekOctets).toString("base64")}`;
  if (!kekRing.safeParse(entry).success) {
    throw usageError("a KEK's id is 1 to 64 letters, digits, dots, - and _");
  }
  terminal.print(entry);
  terminal.noticeNext([
    ["wrangler secret put KEK", "gives it to a Worker; `rampart serve` reads KEK or KEK_FILE"],
    ["rampart kek new --help", "says how to put it in the place of another KEK"],
  ]);
}

async function list(session: Session, { json, retire }: ListOptions): Promise<void> {
  const { terminal } = session;
  const store = await openStore(session);
  const reports = await reportKeks(session);
  const rows = reports.map(({ id, isConfigured, records }) => [
    id,
    isConfigured ? "yes" : "NO",
    `${records}`,
  ]);
  terminal.print(
    json
      ? JSON.stringify(reports, undefined, 2)
      : formatTable(terminal, ["KEK", "CONFIGURED", "RECORDS"], rows),
  );
  requireAllOpen(store);
  if (retire !== undefined) requireRetirable(retire, reports);
}

/** @param reports The first one is about the KEK that seals new records. */
function requireRetirable(id: string, reports: readonly KekReport[]): void {
  const report = reports.find((each) => each.id === id);
  if (!report) throw new OperatorError(`no KEK ${id} is configured, and no record uses one`);
  if (report === reports[0]) throw new OperatorError(`${id} is the KEK that seals new records`);
  if (report.records === 0) return;
  throw new OperatorError(
    `${id} still seals records (${report.records}): put another KEK first, and the next cron run seals them anew`,
    { exitCode: exitCodes.attention },
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

/** The KEK that a record names; true only if the record opens. */
function kekOf(value: string): string {
  try {
    return String((JSON.parse(value) as { kek?: unknown }).kek ?? "(unreadable)");
  } catch {
    return "(unreadable)";
  }
}
