import { Command } from "commander";
import { foundAuthority } from "../../../ca/rotation/inception.ts";
import { OperatorError } from "../../../foundation/operator-error.ts";
import { authoritiesIn, isStepDue } from "../../../status/authorities.ts";
import {
  openStore,
  requireAllOpen,
  type Session,
  type SessionOptions,
  withSession,
} from "../../session/session.ts";
import { addExitCodes, exitCodes } from "../../terminal/exit-codes.ts";
import { noticeNext } from "../../terminal/notices.ts";
import { orOperatorError } from "../../terminal/operator-error.ts";
import { addChangeOptions, addDeploymentOptions } from "../../terminal/options.ts";
import { withProgress } from "../../terminal/progress.ts";
import { printStoreSummary } from "../../terminal/store-summary.ts";
import { inspectClusters } from "../cluster/cluster-inspection.ts";
import { addLoginOptions, type LoginChoice } from "../cluster/cluster-logins.ts";
import { reportDeliveries, rootReach } from "../root/delivery-report.ts";
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

type Clock = () => Date;

interface PlanOptions extends SessionOptions, LoginChoice {}

/** `rampart authority …`: the verbs for the CA's own keys. */
export function authorityCommand(clock: Clock): Command {
  const authority = new Command("authority").description("the CA's signing authorities");
  addDeploymentOptions(authority.command("list"))
    .description("list every authority with its phase, dates and fingerprint")
    .option("--json", "print JSON")
    .action((options: SessionOptions) => withSession(options, clock, (s) => list(s, options)));
  addShow(addDeploymentOptions(authority.command("show")), clock);
  const planning = addExitCodes(authority.command("plan"), {
    attention: "A step is due that a person has to take.",
  });
  addLoginOptions(addDeploymentOptions(planning))
    .description(
      "show what happens next and when, what a taint would do, and which clusters have the next root",
    )
    .option("--json", "print JSON")
    .action((options: PlanOptions) => withSession(options, clock, (s) => showPlan(s, options)));
  addChangeOptions(authority.command("init"))
    .description("give an empty store its first authority, whatever INCEPTION_DATE says")
    .action((options: SessionOptions) => withSession(options, clock, init));
  addRotate(addChangeOptions(authority.command("rotate")), clock);
  addTaint(addChangeOptions(authority.command("taint")), clock);
  addImport(addChangeOptions(authority.command("import")), clock);
  addRequest(addChangeOptions(authority.command("request")), clock);
  addRequests(addDeploymentOptions(authority.command("requests")), clock);
  addWithdraw(addChangeOptions(authority.command("withdraw")), clock);
  addInstall(addChangeOptions(authority.command("install")), clock);
  addExport(addDeploymentOptions(authority.command("export")), clock);
  addRestore(addChangeOptions(authority.command("restore")), clock);
  return authority;
}

async function list(session: Session, { json }: SessionOptions): Promise<void> {
  const store = await openStore(session);
  const reports = authoritiesIn(store, session.now);
  console.log(json ? JSON.stringify(reports, undefined, 2) : formatAuthorities(reports));
  requireAllOpen(store);
}

async function showPlan(session: Session, { json, ...logins }: PlanOptions): Promise<void> {
  const { configuration, now } = session;
  const store = await openStore(session);
  requireAuthority(store);
  const inspections = await withProgress(
    "asking the clusters",
    () => inspectClusters(configuration, logins),
    { json },
  );
  const deliveries = await reportDeliveries(inspections, session.currentBundle);
  const plan = planOf(store, { deliveries, rootReach: rootReach(store, inspections, now) }, now);
  console.log(json ? planJson(plan) : formatPlan(plan));
  requireAllOpen(store);
  // For whoever watches the exit code: somebody has to act.
  if (plan.nextStep && isStepDue(plan.nextStep, now)) process.exitCode = exitCodes.attention;
}

export async function init(session: Session): Promise<void> {
  const { mint, now } = session;
  const store = await openStore(session);
  if (store.authorities.length > 0 || store.refusals.length > 0) {
    throw new OperatorError(
      "the store is not empty: init creates the first authority of an empty store",
    );
  }
  requireRootHere(session);
  await withProgress("making the first authority", () =>
    orOperatorError(() => foundAuthority(mint, now)),
  );
  await printStoreSummary(session);
  if (!session.isDry) noticeNext([backupStep(session), planStep(session)]);
}
