import { Command } from "commander";
import { mintAuthority } from "../../../ca/mint.ts";
import type { OpenedStore } from "../../../ca/opened-store.ts";
import { foundAuthority } from "../../../ca/rotation/inception.ts";
import { askUpstream } from "../../../ca/upstream/ask-upstream.ts";
import { OperatorError } from "../../../foundation/operator-error.ts";
import { lastSignature } from "../../../pki/authority/rotation.ts";
import { nextSchedule, phaseAt } from "../../../pki/authority/schedule.ts";
import {
  openStore,
  requireAllOpen,
  type Session,
  type SessionOptions,
  withSession,
} from "../../session/session.ts";
import { orOperatorError } from "../../terminal/operator-error.ts";
import { addChangeOptions, addDeploymentOptions } from "../../terminal/options.ts";
import { printStoreSummary } from "../../terminal/store-summary.ts";
import { formatInstant } from "../../terminal/table.ts";
import { inspectClusters } from "../cluster/cluster-inspection.ts";
import { addLoginOptions, type LoginChoice } from "../cluster/cluster-logins.ts";
import { reportDeliveries } from "../root/delivery-report.ts";
import { rootReach } from "../root/root-reach.ts";
import { addImport } from "./authority-import.ts";
import { addInstall } from "./authority-install.ts";
import { formatAuthorities, reportAuthorities, shortId } from "./authority-report.ts";
import { addRequest, addRequests, addWithdraw } from "./authority-request.ts";
import { addShow } from "./authority-show.ts";
import { addTaint } from "./authority-taint.ts";
import { addExport, addRestore } from "./backup/authority-backup.ts";
import { isStepDue } from "./next-step-report.ts";
import { formatPlan, planJson } from "./plan-report.ts";

type Clock = () => Date;

interface ViewOptions extends SessionOptions {
  readonly json?: boolean;
}

interface PlanOptions extends ViewOptions, LoginChoice {}

/** `rampart authority …`: the verbs for the CA's own keys. */
export function authorityCommand(clock: Clock): Command {
  const authority = new Command("authority").description("the CA's signing authorities");
  addDeploymentOptions(authority.command("list"))
    .description("list every authority with its phase, dates and fingerprint")
    .option("--json", "print JSON")
    .action((options: ViewOptions) => withSession(options, clock, (s) => list(s, options)));
  addShow(addDeploymentOptions(authority.command("show")), clock);
  addLoginOptions(addDeploymentOptions(authority.command("plan")))
    .description(
      "show what happens next and when, what a taint would do, and which clusters have the next root",
    )
    .option("--json", "print JSON")
    .action((options: PlanOptions) => withSession(options, clock, (s) => plan(s, options)));
  addChangeOptions(authority.command("init"))
    .description("give an empty store its first authority, whatever INCEPTION_DATE says")
    .action((options: SessionOptions) => withSession(options, clock, init));
  addChangeOptions(authority.command("rotate"))
    .description(
      "mint the successor now instead of when it is due; it signs once every verifier has its root",
    )
    .action((options: SessionOptions) => withSession(options, clock, rotateNow));
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

async function list(session: Session, { json }: ViewOptions): Promise<void> {
  const store = await openStore(session);
  const reports = reportAuthorities(store, session.now);
  console.log(json ? JSON.stringify(reports, undefined, 2) : formatAuthorities(reports));
  requireAllOpen(store);
}

async function plan(session: Session, { json, ...logins }: PlanOptions): Promise<void> {
  const { configuration, mint, now } = session;
  const store = await openStore(session);
  requireAuthority(store);
  const inspections = await inspectClusters(configuration, logins);
  const deliveries = await reportDeliveries(inspections, session.currentBundle);
  const planned = {
    lengths: mint.phaseLengths,
    deliveries,
    reach: rootReach(store, inspections, now),
  };
  const report = json ? planJson : formatPlan;
  console.log(report(store, planned, now));
  requireAllOpen(store);
  // For whoever watches the exit code: somebody has to act.
  if (isStepDue(store, now)) process.exitCode = 2;
}

async function init(session: Session): Promise<void> {
  const { mint, now } = session;
  const store = await openStore(session);
  if (store.authorities.length > 0 || store.refusals.length > 0) {
    throw new OperatorError(
      "the store is not empty: init creates the first authority of an empty store",
    );
  }
  requireRootHere(session);
  await orOperatorError(() => foundAuthority(mint, now));
  await printStoreSummary(session);
}

async function rotateNow(session: Session): Promise<void> {
  const { mint, now } = session;
  const store = await openStore(session);
  requireAuthority(store);
  const authorities = store.issuers.map(({ authority }) => authority);
  const prepared = authorities.find(
    ({ schedule }) =>
      schedule.signsFrom < schedule.signsUntil &&
      ["future", "published"].includes(phaseAt(schedule, now)),
  );
  if (prepared) {
    const when = formatInstant(prepared.schedule.signsFrom);
    throw new OperatorError(`a successor is prepared: ${shortId(prepared.id)} signs from ${when}`);
  }
  requireRootHere(session);
  if (mint.authorityRoot === "upstream") {
    await orOperatorError(() => askUpstream(mint, undefined, now));
  } else {
    const schedule = nextSchedule(mint.phaseLengths, lastSignature(authorities), now);
    await mintAuthority(mint, schedule);
  }
  await printStoreSummary(session);
}

/** Requires that this command may make the next authority: another CA may have to, or a person. */
function requireRootHere({ mint, isDry }: Session): void {
  if (mint.authorityRoot === "upstream" && isDry) {
    throw new OperatorError(
      "nothing was done: a dry run does not ask the CA upstream for anything",
    );
  }
  if (mint.authorityRoot !== "offline") return;
  throw new OperatorError(
    "AUTHORITY_ROOT is offline: make a request with `rampart authority request`, and install its answer",
  );
}

function requireAuthority(store: OpenedStore): void {
  const { authorities, refusals } = store;
  if (authorities.length > 0) return;
  throw new OperatorError(
    refusals.length > 0
      ? `no authority opens: the store holds records that do not open (${refusals.length})`
      : `the store holds no authority: ${firstStep(store)}`,
  );
}

function firstStep({ authorityRoot, requests }: OpenedStore): string {
  if (authorityRoot !== "offline") return "create one with `rampart authority init`, or import one";
  return requests.length > 0
    ? "install the answer to the open request with `rampart authority install`"
    : "make a request with `rampart authority request`, or import one";
}
