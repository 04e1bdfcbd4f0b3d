import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { Command, Option } from "commander";
import { adoptAuthority } from "../ca/adopt.ts";
import { inceptionSchedule } from "../ca/inception.ts";
import { mintAuthority } from "../ca/mint.ts";
import type { OpenedStore } from "../ca/opened-store.ts";
import { rotate } from "../ca/rotate.ts";
import { recordTaint } from "../ca/taint.ts";
import { lastSignature } from "../pki/rotation.ts";
import { nextSchedule, phaseAt } from "../pki/schedule.ts";
import { createTaint, type Departure, type Taint } from "../pki/taint.ts";
import { formatAuthorities, reportAuthorities, shortId } from "./authority-report.ts";
import {
  type BackupKey,
  type BackupLock,
  openBackup,
  restoreBackup,
  writeBackup,
} from "./backup.ts";
import { type ConfirmationOptions, confirm } from "./confirmation.ts";
import { forecastTaints } from "./forecast.ts";
import { findByBeginning } from "./id-beginning.ts";
import { loadFile } from "./import/bounded-file.ts";
import { loadPluggedIn } from "./import/load.ts";
import { verifyPluggedIn } from "./import/verify.ts";
import { Obstacle } from "./obstacle.ts";
import { addChangeOptions, addDeploymentOptions } from "./options.ts";
import { readPassphrase } from "./passphrase.ts";
import { formatPlan, planJson } from "./plan-report.ts";
import {
  openStore,
  requireAllOpen,
  type Session,
  type SessionOptions,
  withSession,
} from "./session.ts";
import { formatInstant } from "./table.ts";

type Clock = () => Date;

interface ViewOptions extends SessionOptions {
  readonly json?: boolean;
}

/** `rampart authority …`: everything that is done to the CA's own keys. */
export function authorityCommand(clock: Clock): Command {
  const authority = new Command("authority").description("the CA's signing authorities");
  addDeploymentOptions(authority.command("list"))
    .description("every authority: its phase, its dates, its fingerprint")
    .option("--json", "as JSON, for programs")
    .action((options: ViewOptions) => withSession(options, clock(), (s) => list(s, options)));
  addDeploymentOptions(authority.command("plan"))
    .description("what happens next and when, and what a taint would do")
    .option("--json", "as JSON, for programs")
    .action((options: ViewOptions) => withSession(options, clock(), (s) => plan(s, options)));
  addChangeOptions(authority.command("init"))
    .description("give an empty store its first authority, whatever INCEPTION_DATE says")
    .action((options: SessionOptions) => withSession(options, clock(), init));
  addChangeOptions(authority.command("rotate"))
    .description("mint the successor now instead of when it is due; it signs in good time")
    .action((options: SessionOptions) => withSession(options, clock(), rotateNow));
  addTaint(addChangeOptions(authority.command("taint")), clock);
  addImport(addChangeOptions(authority.command("import")), clock);
  addExport(addDeploymentOptions(authority.command("export")), clock);
  addRestore(addChangeOptions(authority.command("restore")), clock);
  return authority;
}

async function list(session: Session, { json }: ViewOptions): Promise<void> {
  const store = await openStore(session);
  const reports = await reportAuthorities(store, session.now);
  console.log(json ? JSON.stringify(reports, undefined, 2) : formatAuthorities(reports));
  requireAllOpen(store);
}

async function plan(session: Session, { json }: ViewOptions): Promise<void> {
  const store = await openStore(session);
  requireAuthority(store);
  const { phaseLengths } = session.mint;
  const report = json ? planJson : formatPlan;
  console.log(await report(store, phaseLengths, session.now));
  requireAllOpen(store);
}

async function init(session: Session): Promise<void> {
  const { mint, now } = session;
  const store = await openStore(session);
  if (store.authorities.length > 0 || store.refusals.length > 0) {
    throw new Obstacle("the store is not empty: init founds a CA where none is");
  }
  await mintAuthority(mint, inceptionSchedule(mint, now));
  await conclude(session);
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
    throw new Obstacle(`a successor is prepared: ${shortId(prepared.id)} signs from ${when}`);
  }
  const schedule = nextSchedule(mint.phaseLengths, lastSignature(authorities), now);
  await mintAuthority(mint, schedule);
  await conclude(session);
}

interface TaintOptions extends SessionOptions, ConfirmationOptions {
  readonly root: Departure;
}

function addTaint(command: Command, clock: Clock): void {
  command
    .argument("<id>", "the authority's id as `list` shows it, or its first 4 characters or more")
    .description(
      "stop an authority whose key may be in other hands: it signs nothing from now on, another takes over",
    )
    .addOption(
      new Option("--root <when>", "when its root leaves the trust bundle")
        .choices(["immediately", "with-last-leaf"] satisfies Departure[])
        .makeOptionMandatory(),
    )
    .option("-y, --yes", "do not ask")
    .addHelpText(
      "after",
      `
  immediately      what it signed, and what a thief signs with it, is refused as soon as workloads
                   fetch the new trust bundle; workloads that have not renewed by then lose their peers
  with-last-leaf   no connection breaks; until its last certificate has expired, a thief can still sign`,
    )
    .action((id: string, options: TaintOptions) =>
      withSession(options, clock(), (s) => taint(s, id, options)),
    );
}

async function taint(session: Session, id: string, options: TaintOptions): Promise<void> {
  const { mint, now } = session;
  const store = await openStore(session);
  const authority = findByBeginning(store.authorities, id, "authority");
  const decided = createTaint(store, authority.id, options.root, mint.phaseLengths, now);
  requireStricter(store, decided);
  await confirm(taintQuestion(session, store, decided), { yes: options.yes || session.isDry });
  await recordTaint(mint, decided);
  const faults = await rotate(mint, now).then(() => 0, countFaults);
  await conclude(session);
  if (faults > 0) {
    throw new Obstacle(
      `it is tainted, but the rotation after it met faults (${faults}): the next cron run goes on`,
    );
  }
}

/** What says nothing new would only be one more record that nothing ever deletes. */
function requireStricter(
  { issuers, taints }: OpenedStore,
  { id, taintedAt, retiresAt }: Taint,
): void {
  const left = issuers.find(({ authority }) => authority.id === id)?.authority.schedule.retiresAt;
  if (left && left <= taintedAt) throw new Obstacle(`${id} has left the trust bundle already`);
  if (left && left <= retiresAt && taints.some((taint) => taint.id === id)) {
    throw new Obstacle(`${id} is tainted already, and its root leaves ${formatInstant(left)}`);
  }
}

function taintQuestion({ mint, place, now }: Session, store: OpenedStore, taint: Taint): string {
  const forecast = forecastTaints(store, mint.phaseLengths, now).find(({ id }) => id === taint.id);
  const gap =
    forecast && forecast.successorSignsFrom > now
      ? ` Nothing signs until ${formatInstant(forecast.successorSignsFrom)}.`
      : "";
  const until = formatInstant(taint.retiresAt);
  return `Taint ${taint.id} in the ${place}? It can never sign again, and is trusted until ${until}.${gap}`;
}

/** What a rotation fails with was logged fault by fault. */
function countFaults(error: unknown): number {
  if (error instanceof AggregateError) return error.errors.length;
  throw error;
}

interface ImportOptions extends SessionOptions {
  readonly roots?: string;
}

function addImport(command: Command, clock: Clock): void {
  command
    .argument("<source>", "a directory (Istio's cacerts, kubernetes.io/tls) or a Secret's manifest")
    .description("move in with the CA that a mesh has: it signs at once, its key is sealed here")
    .option("--roots <file>", "more roots to trust beside it, such as root-cert-combined.pem")
    .action((source: string, options: ImportOptions) =>
      withSession(options, clock(), (s) => importAuthority(s, source, options)),
    );
}

async function importAuthority(
  session: Session,
  source: string,
  { roots }: ImportOptions,
): Promise<void> {
  const { mint, now } = session;
  const store = await openStore(session);
  if (store.authorities.length > 0 || store.refusals.length > 0) {
    throw new Obstacle(
      "the store has an authority already, whose workloads do not know the imported root:\n" +
        "import into an empty store, or trust the other CA's root with `rampart root add`",
    );
  }
  const material = await loadPluggedIn(source, roots);
  const imported = await verifyPluggedIn(material, mint.trustDomain, now);
  for (const warning of imported.warnings) console.error(`warning: ${warning}`);
  const { certificates, privateKey: extractablePrivateKey, additionalRoots } = imported;
  await adoptAuthority(mint, { certificates, extractablePrivateKey, additionalRoots }, now);
  // One that has not long to live needs its successor now.
  await rotate(mint, now);
  await conclude(session);
}

interface ExportOptions extends SessionOptions {
  readonly out: string;
  readonly recipient?: readonly string[];
}

function addExport(command: Command, clock: Clock): void {
  command
    .description("write an encrypted backup (age) of every authority, with its keys")
    .requiredOption("-o, --out <file>", "where to; a file that exists is left alone")
    .option(
      "-r, --recipient <age1...>",
      "lock it for an age key instead of a passphrase; may be repeated",
      append,
    )
    .addHelpText("after", passphraseHelp)
    .action((options: ExportOptions) =>
      withSession(options, clock(), (s) => exportBackup(s, options)),
    );
}

const append = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
];

const passphraseHelp = `
The passphrase is asked for, or comes from the environment variable RAMPART_PASSPHRASE.`;

const forgeryHelp = `
Whoever knows an age recipient can write a backup for it: restore one that --recipient locked only
from where nobody else could have put another, and look at --dry-run first.`;

async function exportBackup(session: Session, { out, recipient }: ExportOptions): Promise<void> {
  if (existsSync(out)) throw new Obstacle(`${out} exists already`);
  const lock: BackupLock = recipient
    ? { recipients: recipient }
    : { passphrase: await readPassphrase({ isNew: true }) };
  const backup = await writeBackup(session, lock);
  await writeFile(out, backup, { mode: 0o600, flag: "wx" }).catch((error: Error) => {
    throw new Obstacle(`${out} cannot be written: ${error.message}`);
  });
  console.log(`${out} holds every authority of the ${session.place}.`);
}

interface RestoreOptions extends SessionOptions, ConfirmationOptions {
  readonly identity?: string;
}

function addRestore(command: Command, clock: Clock): void {
  command
    .argument("<file>", "what export wrote")
    .description("seal a backup's authorities into the store, under the newest KEK")
    .option("-i, --identity <file>", "the age identity that opens it, instead of a passphrase")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      "after",
      `${passphraseHelp}
${forgeryHelp}`,
    )
    .action((file: string, options: RestoreOptions) =>
      withSession(options, clock(), (s) => restore(s, file, options)),
    );
}

async function restore(session: Session, file: string, options: RestoreOptions): Promise<void> {
  const backup = await openBackup(
    await readText(file, maximumBackupOctets),
    await backupKey(options),
  );
  const { authorities, refusals } = await openStore(session);
  const records = authorities.length + refusals.length;
  if (records > 0) {
    const question = `The ${session.place} is not empty (authorities and what does not open: ${records}). Restore beside and over them?`;
    await confirm(question, { yes: options.yes || session.isDry });
  }
  await restoreBackup(session, backup);
  await conclude(session);
}

/** A hundred authorities with long chains. */
const maximumBackupOctets = 16 * 1024 * 1024;
const maximumIdentityOctets = 64 * 1024;

async function backupKey({ identity }: RestoreOptions): Promise<BackupKey> {
  if (!identity) return { passphrase: await readPassphrase({ isNew: false }) };
  const lines = (await readText(identity, maximumIdentityOctets)).split("\n");
  const key = lines.map((line) => line.trim()).find((line) => line.startsWith("AGE-SECRET-KEY-"));
  if (!key) throw new Obstacle(`${identity} holds no age identity`);
  return { identity: key };
}

async function readText(file: string, maximumOctets: number): Promise<string> {
  const source = await loadFile(file, maximumOctets);
  if (source) return source.text;
  throw new Obstacle(`${file}: there is no such file`);
}

/** What the store looks like after a change, or would look like. */
async function conclude(session: Session): Promise<void> {
  const { mint, now, isDry, place } = session;
  console.log(isDry ? `Nothing was written. The ${place} would hold:` : `The ${place} holds:`);
  console.log(formatAuthorities(await reportAuthorities(await openStore(session), now)));
  if (isDry)
    for (const { act, name } of mint.store.changes) console.log(`${act} ${name.kind} ${name.id}`);
}

function requireAuthority({ authorities, refusals }: OpenedStore): void {
  if (authorities.length > 0) return;
  throw new Obstacle(
    refusals.length > 0
      ? `no authority opens (records that do not: ${refusals.length})`
      : "the store holds no authority: found one with `rampart authority init`, or import one",
  );
}
