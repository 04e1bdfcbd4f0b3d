import { Command } from "commander";
import { foundAuthority } from "../../../ca/rotation/inception.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { authoritiesIn, isStepDue, unopenedRecords } from "../../../status/authorities.ts";
import {
  openStore,
  requireAllOpen,
  type Session,
  type SessionOptions,
  withSession,
} from "../../session/session.ts";
import {
  addChangeOptions,
  addDeploymentOptions,
  addExitCodes,
  exitCodes,
} from "../../terminal/command-line.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import {
  addLoginOptions,
  inspectClusters,
  type LoginChoice,
} from "../cluster/cluster-inspection.ts";
import { reportDeliveries, rootReach } from "../cluster/delivery-report.ts";
import { addImport } from "./authority-import.ts";
import { addInstall } from "./authority-install.ts";
import { formatAuthorities } from "./authority-report.ts";
import { addRequest, addRequests, addWithdraw } from "./authority-request.ts";
import { addRotate } from "./authority-rotate.ts";
import { addShow } from "./authority-show.ts";
import { addTaint } from "./authority-taint.ts";
import { addExport, addRestore } from "./backup/authority-backup.ts";
import { backupStep, planStep } from "./next-verbs.ts";
import { formatPlan, planJson, planOf } from "./plan-report.ts";
import { requireAuthority, requireRootHere } from "./requirements.ts";
import { printStoreSummary } from "./store-summary.ts";

interface PlanOptions extends SessionOptions, LoginChoice {}

/** `rampart authority …`: the verbs for the CA's own keys. */
export function authorityCommand(terminal: Terminal): Command {
  const authority = new Command("authority").description("the CA's signing authorities");
  addDeploymentOptions(authority.command("list"))
    .description("list every authority with its phase, dates and fingerprint")
    .option("--json", "print JSON")
    .action((options: SessionOptions) => withSession(terminal, options, (s) => list(s, options)));
  addShow(addDeploymentOptions(authority.command("show")), terminal);
  const planning = addExitCodes(authority.command("plan"), {
    attention: "A step is due that a person has to take.",
    broken: "No authority signs now.",
  });
  addLoginOptions(addDeploymentOptions(planning))
    .description(
      "show what happens next and when, what a taint would do, and which clusters have the next root",
    )
    .option("--json", "print JSON")
    .action((options: PlanOptions) => withSession(terminal, options, (s) => showPlan(s, options)));
  addChangeOptions(authority.command("init"))
    .description("give an empty store its first authority, whatever INCEPTION_DATE says")
    .action((options: SessionOptions) => withSession(terminal, options, init));
  addRotate(addChangeOptions(authority.command("rotate")), terminal);
  addTaint(addChangeOptions(authority.command("taint")), terminal);
  addImport(addChangeOptions(authority.command("import")), terminal);
  addRequest(addChangeOptions(authority.command("request")), terminal);
  addRequests(addDeploymentOptions(authority.command("requests")), terminal);
  addWithdraw(addChangeOptions(authority.command("withdraw")), terminal);
  addInstall(addChangeOptions(authority.command("install")), terminal);
  addExport(addDeploymentOptions(authority.command("export")), terminal);
  addRestore(addChangeOptions(authority.command("restore")), terminal);
  return authority;
}

async function list(session: Session, { json }: SessionOptions): Promise<void> {
  const store = await openStore(session);
  const reports = authoritiesIn(store, session.now);
  const table = (): string =>
    (reports.length === 0 && unopenedRecords(store)) ||
    formatAuthorities(session.terminal, reports);
  session.terminal.print(json ? JSON.stringify(reports, undefined, 2) : table());
  requireAllOpen(store);
}

async function showPlan(session: Session, { json, ...logins }: PlanOptions): Promise<void> {
  const { terminal, configuration, now } = session;
  const store = await openStore(session);
  requireAuthority(store);
  const inspections = await terminal.progress(
    "asking the clusters",
    () => inspectClusters(configuration, logins, terminal.environment),
    { json },
  );
  const deliveries = await reportDeliveries(inspections, session.currentBundle);
  const plan = planOf(store, { deliveries, rootReach: rootReach(store, inspections, now) }, now);
  terminal.print(json ? planJson(plan) : formatPlan(terminal, plan));
  requireAllOpen(store);
  // For whoever watches the exit code: somebody has to act.
  if (!plan.authorities.some(({ signs }) => signs)) terminal.exitWith(exitCodes.broken);
  else if (plan.nextStep && isStepDue(plan.nextStep, now)) terminal.exitWith(exitCodes.attention);
}

export async function init(session: Session): Promise<void> {
  const { terminal, mint, now } = session;
  const store = await openStore(session);
  if (store.authorities.length > 0 || store.refusals.length > 0) {
    throw new OperatorError(
      "the store is not empty: init creates the first authority of an empty store",
    );
  }
  requireRootHere(session);
  await terminal.progress("making the first authority", () =>
    orOperatorError(() => foundAuthority(mint, now)),
  );
  await printStoreSummary(session);
  if (!session.isDry) terminal.noticeNext([backupStep(session), planStep(session)]);
}
