import { existsSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import type { Command } from "commander";
import type { OpenedStore } from "../../../ca/opened-store.ts";
import { sealStatement } from "../../../custody/statement.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { leaveToOwner } from "../../../node/files/store-owner.ts";
import { type ConfiguredTaint, taintsOf } from "../../../pki/authority/taint.ts";
import { createFile } from "../../../program/files/atomic-file.ts";
import { readSmallFile } from "../../../program/files/small-file.ts";
import {
  openStore,
  type Session,
  type SessionOptions,
  withSession,
} from "../../session/session.ts";
import { type ConfirmationOptions, confirm, readPassphrase } from "../../terminal/questions.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";
import {
  type BackupKey,
  type BackupLock,
  type OpenedBackup,
  openBackup,
  restoreBackup,
  writeBackup,
} from "./backup-file.ts";
import { doctorStep, planStep, printStoreSummary } from "./store-summary.ts";

interface ExportOptions extends SessionOptions {
  readonly out: string;
  readonly recipient?: readonly string[];
}

/** `rampart authority export`. */
export function addExport(command: Command, terminal: Terminal): void {
  command
    .description(
      "write an encrypted backup (age) of every authority and open request, with their keys",
    )
    .requiredOption("-o, --out <file>", "the file to write; an existing file is left as it is")
    .option(
      "-r, --recipient <age1...>",
      "encrypt to this age public key instead of a passphrase; may be repeated",
      append,
    )
    .addHelpText("after", passphraseHelp)
    .action((options: ExportOptions) =>
      withSession(terminal, options, (s) => exportBackup(s, options)),
    );
}

const append = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
];

const passphraseHelp = `
Rampart asks for the passphrase, or takes it from the environment variable RAMPART_PASSPHRASE.`;

const forgeryHelp = `
Anybody who knows an age recipient can encrypt a forged backup to it. Restore a backup made with
--recipient only from a place that nobody else can write to, and try --dry-run first.`;

export async function exportBackup(
  session: Session,
  { out, recipient }: ExportOptions,
): Promise<void> {
  if (existsSync(out)) throw new OperatorError(`${out} exists already`);
  const lock: BackupLock = recipient
    ? { recipients: recipient }
    : { passphrase: await readPassphrase(session.terminal, { isNew: true }) };
  const { authorities, taints, requests } = await openStore(session);
  const backup = await session.terminal.progress("encrypting the backup", () =>
    writeBackup(session, lock),
  );
  const give = (file: FileHandle) => leaveToOwner(file, dirname(out));
  await createFile(out, backup, { mode: 0o600, give }).catch((error: Error) => {
    throw new OperatorError(`${out} cannot be written: ${error.message}`);
  });
  // A record beside no authority would keep an empty store from its inception.
  if (authorities.length > 0) await noteBackup(session);
  const tainted = [...new Set(taints.map(({ id }) => shortId(id)))];
  const open = requests.map(({ id }) => shortId(id));
  session.terminal.print(
    `${out} holds every authority of the ${session.place} as of ${formatInstant(session.now)}; tainted: ${tainted.join(", ") || "none"}.`,
  );
  if (open.length > 0) session.terminal.print(`It holds open requests: ${open.join(", ")}.`);
}

/** Lets `rampart doctor` know. The backup is good even where its maker may not write to the store. */
async function noteBackup({ mint, now, log }: Session): Promise<void> {
  try {
    await mint.store.put(
      await sealStatement("backup", { madeAt: now }, mint.trustDomain, mint.keks),
    );
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    log.operation({ event: "backup-not-noted", level: "warning", detail: error.message });
  }
}

interface RestoreOptions extends SessionOptions, ConfirmationOptions {
  readonly identity?: string;
}

/** `rampart authority restore`. */
export function addRestore(command: Command, terminal: Terminal): void {
  command
    .argument("<file>", "a file that `rampart authority export` wrote")
    .description("seal a backup's authorities into the store, under the newest KEK")
    .option("-i, --identity <file>", "the age identity that decrypts it, instead of a passphrase")
    .option("-y, --yes", "do not ask for confirmation")
    .addHelpText(
      "after",
      `${passphraseHelp}
${forgeryHelp}`,
    )
    .action((file: string, options: RestoreOptions) =>
      withSession(terminal, { ...options, mayBeNew: true }, (s) => restore(s, file, options)),
    );
}

export async function restore(
  session: Session,
  file: string,
  options: RestoreOptions,
): Promise<void> {
  const { terminal, mint, now, place, isDry } = session;
  const content = await readSmallFile(file, maximumBackupOctets, { mayBePipe: true });
  const key = await backupKey(terminal, options);
  const backup = await terminal.progress("decrypting the backup", () => openBackup(content, key));
  const store = await openStore(session);
  terminal.print(summarizeBackup(backup, { ...mint, store, now }));
  const records = store.authorities.length + store.refusals.length;
  const question =
    records > 0
      ? `There are authorities or unreadable records (${records}) in the ${place} already. Restore beside and over them?`
      : `Restore it into the ${place}?`;
  await confirm(terminal, question, { yes: options.yes || isDry });
  await restoreBackup(session, backup);
  await printStoreSummary(session);
  if (!isDry) terminal.noticeNext([doctorStep(session), planStep(session)]);
}

/** Room for a hundred authorities with long chains. */
const maximumBackupOctets = 16 * 1024 * 1024;
const maximumIdentityOctets = 64 * 1024;

async function backupKey(terminal: Terminal, { identity }: RestoreOptions): Promise<BackupKey> {
  if (!identity) return { passphrase: await readPassphrase(terminal, { isNew: false }) };
  const text = await readSmallFile(identity, maximumIdentityOctets, { mayBePipe: true });
  const lines = text.split("\n");
  const key = lines.map((line) => line.trim()).find((line) => line.startsWith("AGE-SECRET-KEY-"));
  if (!key) throw new OperatorError(`${identity} holds no age identity`);
  return { identity: key };
}

/** The circumstances of a restore. */
interface Restoring {
  readonly store: OpenedStore;
  readonly configuredTaints: readonly ConfiguredTaint[];
  readonly now: Date;
}

/** The age of a backup, the taints in it, and the taints only here: the operator's grounds to restore it. */
export function summarizeBackup(
  backup: OpenedBackup,
  { store, configuredTaints, now }: Restoring,
): string {
  const authorities = backup.authorities.map(({ authority }) => authority);
  const held = new Set(backup.statements.taint.map(({ id }) => id));
  const here = taintsOf(configuredTaints, [...authorities, ...backup.statements.root]);
  const known = [...store.storedTaints, ...here].map(({ id }) => id);
  const restored = new Set([...authorities, ...backup.statements.root].map(({ id }) => id));
  const kept = [...new Set(known)].filter((id) => restored.has(id) && !held.has(id));
  const untainted = authorities.filter(({ id }) => !held.has(id) && !known.includes(id));
  return [
    ageOf(backup.writtenAt, now),
    `It holds ${counted(authorities.length, "authority", "authorities")}; tainted in it: ${listed([...held])}.`,
    ...(backup.requests.length > 0
      ? [`Open requests in it: ${listed(backup.requests.map(({ id }) => id))}.`]
      : []),
    ...(kept.length > 0 ? [`Tainted here and not in it, and still after: ${listed(kept)}.`] : []),
    `May sign when its time comes: ${listed(untainted.map(({ id }) => id))}.`,
    "A taint that was made after the backup, and that store and TAINTED_AUTHORITIES lack, is lost.",
  ].join("\n");
}

function ageOf(writtenAt: Date | undefined, now: Date): string {
  if (!writtenAt) return "The backup does not say when it was written.";
  const hours = Math.floor((now.getTime() - writtenAt.getTime()) / 3_600_000);
  const written = `The backup was written at ${formatInstant(writtenAt)}`;
  if (hours < 0) return `${written}, which is in the future by this clock.`;
  const days = Math.floor(hours / 24);
  return `${written}, ${days > 0 ? counted(days, "day", "days") : counted(hours, "hour", "hours")} ago.`;
}

const counted = (count: number, one: string, many: string): string =>
  `${count} ${count === 1 ? one : many}`;

const listed = (ids: readonly string[]): string =>
  ids.length > 0 ? ids.map(shortId).join(", ") : "none";
