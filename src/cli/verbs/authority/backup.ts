import { existsSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import type { Command } from "commander";
import { Statement } from "../../../custody/statement.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { StoreOwner } from "../../../node/files/store-owner.ts";
import { AtomicFile } from "../../../program/files/atomic-file.ts";
import { SmallFile } from "../../../program/files/small-file.ts";
import { Session, type SessionOptions } from "../../session/session.ts";
import { readPassphrase } from "../../terminal/questions.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";
import {
  type BackupKey,
  type BackupLock,
  isArmoured,
  openBackup,
  restoreBackup,
  sealBackup,
} from "./backup-file.ts";
import { requireOneCa, summarizeBackup } from "./restore-plan.ts";
import { doctorStep, planStep, printStoreSummary } from "./store-summary.ts";

interface ExportOptions extends SessionOptions {
  readonly out: string;
  readonly recipient?: readonly string[];
}

/** Adds `authority export`. */
export function addExport(command: Command, terminal: Terminal): void {
  command
    .description(
      "write an encrypted backup (age) of every authority, open request and key for tokens",
    )
    .requiredOption("-o, --out <file>", "the file to write; an existing file is left as it is")
    .option(
      "-r, --recipient <age1...>",
      "encrypt to this age public key instead of a passphrase; may be repeated",
      append,
    )
    .addHelpText("after", passphraseHelp)
    .action(Session.action(terminal, exportBackup));
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

/**
 * Writes an encrypted backup of the store to a new file that only its owner may read, and records in the store that
 * it was made, unless it has no authority or refuses the record. It asks for a passphrase unless there is a recipient.
 * @throws OperatorError if the file exists or cannot be written.
 */
export async function exportBackup(
  session: Session,
  { out, recipient }: ExportOptions,
): Promise<void> {
  if (existsSync(out)) throw new OperatorError(`${out} exists already`);
  const lock: BackupLock = recipient
    ? { recipients: recipient }
    : { passphrase: await readPassphrase(session.terminal, { isNew: true }) };
  const { authorities, taints, requests, tokenKeys } = await Session.open(session);
  const backup = await session.terminal.progress("encrypting the backup", () =>
    sealBackup(session, lock),
  );
  const give = (file: FileHandle) => StoreOwner.leaveFile(file, dirname(out));
  await AtomicFile.create(out, backup, { mode: 0o600, give }).catch((error: Error) => {
    throw new OperatorError(`${out} cannot be written: ${error.message}`);
  });
  // In a store without an authority, this record would keep the CA from making its first one.
  if (authorities.length > 0) await noteBackup(session);
  const tainted = [...new Set(taints.map(({ id }) => shortId(id)))];
  session.terminal.print(
    `${out} holds every authority of the ${session.place} as of ${formatInstant(session.now)}; tainted: ${tainted.join(", ") || "none"}.`,
  );
  const name = (what: string, held: readonly { readonly id: string }[]): void => {
    const ids = held.map(({ id }) => shortId(id)).join(", ");
    if (ids) session.terminal.print(`It holds ${what}: ${ids}.`);
  };
  name("open requests", requests);
  name("keys for tokens", tokenKeys);
}

/**
 * Records in the store that a backup was made, for `rampart doctor`. If the store refuses the record, it logs a
 * warning, because the backup is good nevertheless.
 */
async function noteBackup({ mint, now, log }: Session): Promise<void> {
  try {
    await mint.store.put(await Statement.seal("backup", { madeAt: now }, mint));
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    log.operation({ event: "backup-not-noted", level: "warning", detail: error.message });
  }
}

interface RestoreOptions extends SessionOptions {
  readonly identity?: string;
}

/** Adds `authority restore`. */
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
      Session.use(terminal, { ...options, mayBeNew: true }, (s) => restore(s, file, options)),
    );
}

/**
 * Seals the records of a backup into the store, after a confirmation that names them. It decrypts the backup with an
 * age identity or a passphrase.
 * @throws OperatorError for a file that is no backup, for another CA than the store has, and without the confirmation.
 */
export async function restore(
  session: Session,
  file: string,
  options: RestoreOptions,
): Promise<void> {
  const { terminal, mint, now, place, isDry } = session;
  const content = await SmallFile.read(file, maximumBackupOctets, { mayBePipe: true });
  if (!isArmoured(content)) {
    throw new OperatorError(`${file} is no file that \`rampart authority export\` wrote`);
  }
  const key = await backupKey(terminal, options);
  const backup = await terminal.progress("decrypting the backup", () => openBackup(content, key));
  const store = await Session.open(session);
  terminal.print(summarizeBackup(backup, { ...mint, store, now }));
  requireOneCa(session, backup, store);
  const records = store.authorities.length + store.refusals.length;
  const question =
    records > 0
      ? `There are authorities or unreadable records (${records}) in the ${place} already. Restore beside and over them?`
      : `Restore it into the ${place}?`;
  await Session.confirm(session, question);
  // Checked again, because the confirmation may take long, and the CA makes its first authority by itself on its
  // inception date.
  requireOneCa(session, backup, await Session.open(session));
  await restoreBackup(session, backup);
  await printStoreSummary(session);
  if (!isDry) terminal.noticeNext([doctorStep, planStep]);
}

/** The longest backup: a hundred authorities with long chains fit. */
const maximumBackupOctets = 16 * 1024 * 1024;
const maximumIdentityOctets = 64 * 1024;

async function backupKey(terminal: Terminal, { identity }: RestoreOptions): Promise<BackupKey> {
  if (!identity) return { passphrase: await readPassphrase(terminal, { isNew: false }) };
  const text = await SmallFile.read(identity, maximumIdentityOctets, { mayBePipe: true });
  const lines = text.split("\n");
  const key = lines.map((line) => line.trim()).find((line) => line.startsWith("AGE-SECRET-KEY-"));
  if (!key) throw new OperatorError(`${identity} holds no age identity`);
  return { identity: key };
}
