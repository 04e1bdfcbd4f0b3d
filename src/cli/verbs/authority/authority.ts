import { Command } from "commander";
import type { OpenedStore } from "../../../ca/opened-store.ts";
import { Rotation } from "../../../ca/rotation/rotate.ts";
import { InceptionDate } from "../../../config/signer-table.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import type { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { type Bytes, fingerprintOf } from "../../../pki/encoding/bytes.ts";
import { Pem } from "../../../pki/encoding/pem.ts";
import { Certificate } from "../../../pki/x509/certificate.ts";
import { displayedName } from "../../../pki/x509/displayed-name.ts";
import { AuthorityStatus, SignerStatus } from "../../../status/authorities.ts";
import { Session, type SessionOptions } from "../../session/session.ts";
import {
  addChangeOptions,
  addDeploymentOptions,
  addExitCodes,
  exitCodes,
} from "../../terminal/command-line.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { formatInstant } from "../../terminal/text.ts";
import {
  addLoginOptions,
  inspectClusters,
  type LoginChoice,
} from "../cluster/cluster-inspection.ts";
import { reportDeliveries, rootReach } from "../cluster/delivery-report.ts";
import { oldRoots } from "../cluster/old-roots.ts";
import { addExport, addRestore } from "./backup.ts";
import { addDocuments } from "./documents.ts";
import { addImport, addInstall } from "./install.ts";
import { addRequest, addRequests, addRoot, addWithdraw } from "./own-root.ts";
import { formatPlan, planJson, planOf } from "./plan-report.ts";
import { findByIdPrefix, requireAuthority, requireMayMint } from "./requirements.ts";
import { addRotate, addTaint } from "./rotation.ts";
import { backupStep, formatAuthorities, planStep, printStoreSummary } from "./store-summary.ts";

interface PlanOptions extends SessionOptions, LoginChoice {}

/** `rampart authority …`: the verbs for the CA's own keys. */
export function authorityCommand(terminal: Terminal): Command {
  const authority = new Command("authority").description("the CA's signing authorities");
  addDeploymentOptions(authority.command("list"))
    .description("list every authority with its phase, dates and fingerprint")
    .option("--json", "print JSON")
    .action(Session.action(terminal, list));
  addShow(addDeploymentOptions(authority.command("show")), terminal);
  const planning = addExitCodes(authority.command("plan"), {
    attention: "A step is due that a person has to take.",
    broken: "No authority signs now.",
  });
  addLoginOptions(addDeploymentOptions(planning))
    .description(
      "show what happens next and when, what a taint would do, and which clusters have the next root and old ones",
    )
    .option("--json", "print JSON")
    .action(Session.action(terminal, showPlan));
  addChangeOptions(authority.command("init"))
    .description("give an empty store its first authority, whatever INCEPTION_DATE says")
    .option("-y, --yes", "do not ask for confirmation")
    .action(Session.action(terminal, init));
  addRotate(addChangeOptions(authority.command("rotate")), terminal);
  addTaint(addChangeOptions(authority.command("taint")), terminal);
  addImport(addChangeOptions(authority.command("import")), terminal);
  addRoot(addDeploymentOptions(authority.command("root")), terminal);
  addRequest(addChangeOptions(authority.command("request")), terminal);
  addRequests(addDeploymentOptions(authority.command("requests")), terminal);
  addWithdraw(addChangeOptions(authority.command("withdraw")), terminal);
  addInstall(addChangeOptions(authority.command("install")), terminal);
  addDocuments(addDeploymentOptions(authority.command("documents")), terminal);
  addExport(addDeploymentOptions(authority.command("export")), terminal);
  addRestore(addChangeOptions(authority.command("restore")), terminal);
  return authority;
}

async function list(session: Session, options: SessionOptions): Promise<void> {
  const { terminal, now } = session;
  const store = await Session.open(session);
  const authorities = AuthorityStatus.allIn(store, now);
  terminal.answer(authorities, options, () =>
    formatAuthorities(terminal, authorities, AuthorityStatus.unopenedIn(store)),
  );
  Session.requireAllOpen(store);
}

async function showPlan(session: Session, options: PlanOptions): Promise<void> {
  const { terminal, configuration, now } = session;
  const store = await Session.open(session);
  requireAuthority(store);
  const inspections = await terminal.progress(
    "asking the clusters",
    () => inspectClusters(configuration, options, terminal.environment),
    options,
  );
  const deliveries = await reportDeliveries(inspections, session.currentView);
  const clusters = {
    deliveries,
    rootReach: rootReach(store, inspections, now),
    oldRoots: await oldRoots(store, inspections, session.currentView, now),
  };
  const plan = planOf(store, clusters, now);
  terminal.answer(planJson(plan), options, () => formatPlan(terminal, plan));
  Session.requireAllOpen(store);
  // The exit code tells a script that a person has to act.
  if (!plan.authorities.some(({ signs }) => signs)) terminal.exitWith(exitCodes.broken);
  else if (plan.nextStep && SignerStatus.isStepDue(plan.nextStep, now))
    terminal.exitWith(exitCodes.attention);
}

/**
 * Creates the first authority of an empty store, after a confirmation.
 * @throws OperatorError if the store has an authority or a record that does not open (others, such as denials, may be
 *   there), or this command cannot make an authority.
 */
export async function init(session: Session): Promise<void> {
  const { terminal, mint, now, isDry } = session;
  requireNoAuthority(await Session.open(session));
  requireMayMint(session);
  await Session.confirm(session, await foundingQuestion(session));
  // Checked again, because the CA makes its first authority by itself on its inception date.
  requireNoAuthority(await Session.open(session));
  await terminal.progress("making the first authority", () =>
    orOperatorError(() => Rotation.found(mint, now)),
  );
  await printStoreSummary(session);
  if (!isDry) terminal.noticeNext([backupStep, planStep]);
}

function requireNoAuthority({ authorities, refusals }: OpenedStore): void {
  if (authorities.length + refusals.length === 0) return;
  throw new OperatorError(
    "the store is not empty: init creates the first authority of an empty store",
  );
}

/**
 * Makes the question before a first authority. It warns, because a store that has lost its records looks like a new
 * one.
 */
async function foundingQuestion({ place, mint, now }: Session): Promise<string> {
  const { store, inceptionDate } = mint;
  const others = (await store.load()).length;
  return [
    others > 0 ? `The store holds records (${others}) and no authority: one was lost.` : "",
    InceptionDate.isOver(inceptionDate, now)
      ? `INCEPTION_DATE ${inceptionDate} is over: if the CA had records, look whether their volume is mounted.`
      : "",
    "No certificate of another root of this CA verifies under a new one.",
    `Make the first authority in the ${place}?`,
  ]
    .filter((line) => line !== "")
    .join("\n");
}

/** Adds `authority show`. */
export function addShow(command: Command, terminal: Terminal): void {
  command
    .argument("<id>", "the id as `list` shows it, or its first 4 characters or more")
    .description("show one authority or additional root, with its certificates as PEM")
    .option("--json", "print JSON")
    .action(Session.action(terminal, show));
}

async function show(session: Session, prefix: string, options: SessionOptions): Promise<void> {
  const store = await Session.open(session);
  const report = findByIdPrefix(AuthorityStatus.allIn(store, session.now), prefix, "authority");
  const authority = store.openAuthorities.find(
    (each) => each.authority.id === report.id,
  )?.authority;
  const root = store.additionalRoots.find(({ id }) => id === report.id);
  const certificates = [
    ...(authority ? [shown("authority", authority.certificate.der)] : []),
    ...(authority?.intermediates.slice(1) ?? []).map((der) => shown("intermediate", der)),
    ...rootsOf(authority, root).map((der) => shown("root", der)),
  ];
  if (certificates.length === 0) throw new OperatorError(`the record ${report.id} does not open`);
  const shownReport = { ...report, certificates };
  session.terminal.answer(shownReport, options, () => format(shownReport));
}

/** The roots to show beside an authority: none for a self-signed one, which is its own root. */
function rootsOf(
  authority: Pick<SigningAuthority, "roots" | "intermediates"> | undefined,
  root: Pick<SigningAuthority, "roots"> | undefined,
): readonly Bytes[] {
  if (authority) return authority.intermediates.length > 0 ? authority.roots : [];
  return root?.roots ?? [];
}

/** Describes a certificate of an authority, as `openssl x509 -subject -fingerprint -sha256` would show it. */
function shown(role: "authority" | "intermediate" | "root", der: Bytes) {
  const { subject, validity } = Certificate.parse(der).toBeSigned;
  return {
    role,
    subject: displayedName(subject),
    ...validity,
    sha256: fingerprintOf(der),
    pem: Pem.format("CERTIFICATE", der),
  };
}

function format({
  certificates,
  ...report
}: AuthorityStatus & { readonly certificates: readonly ReturnType<typeof shown>[] }): string {
  const { id, kind, phase, isTainted, signs, key, schedule } = report;
  const lines: readonly [string, string | undefined][] = [
    ["id", id],
    ["kind", kind],
    ["phase", `${phase}${signs ? ", signs now" : ""}${isTainted ? ", tainted" : ""}`],
    ["key", key],
    ["published", formatInstant(schedule.publishedFrom)],
    ["signs from", key && formatInstant(schedule.signsFrom)],
    ["signs until", key && formatInstant(schedule.signsUntil)],
    ["leaves bundle", formatInstant(schedule.retiresAt)],
  ];
  const facts = lines.flatMap(([name, value]) => (value ? [`${name.padEnd(14)}${value}`] : []));
  return [facts.join("\n"), ...certificates.map(formatCertificate)].join("\n\n");
}

const formatCertificate = (each: ReturnType<typeof shown>): string =>
  [
    `# ${each.role}: ${each.subject}`,
    `# valid from ${formatInstant(each.notBefore)} until ${formatInstant(each.notAfter)}`,
    `# SHA-256 ${each.sha256}`,
    each.pem.trim(),
  ].join("\n");
