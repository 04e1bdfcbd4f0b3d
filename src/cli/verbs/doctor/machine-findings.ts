import { constants } from "node:fs";
import { access, lstat, readdir, statfs } from "node:fs/promises";
import { join } from "node:path";
import { AuthorityStore } from "../../../custody/authority-store.ts";
import { errorCode } from "../../../program/files/small-file.ts";
import { Runtime } from "../../../program/runtime.ts";
import { CompliancePolicy } from "../../../program/tls-policy.ts";
import { Finding } from "../../../status/finding.ts";
import type { WorkerTools } from "../../session/local-worker.ts";
import { quoted } from "../../terminal/text.ts";
import { wranglerVersion } from "../../versions.ts";

const installNode = `Install Node ${Runtime.safeNode}, or a newer one`;

/** Findings about known faults of the runtime that an attacker can use. */
export function faultFindings(
  runtime: typeof Runtime.other = Runtime.other,
  node?: string,
): readonly Finding[] {
  const remedy = runtime === undefined ? installNode : "Serve under Node or Bun";
  return Runtime.faults(runtime, node).map((what) =>
    Finding.of("node-version", `${what}.`, remedy),
  );
}

/** Finds that the TLS of this machine has no post-quantum key exchange; nothing if it is offered. */
export function keyExchangeFindings(isOffered: boolean): readonly Finding[] {
  const what = `The TLS of this runtime (OpenSSL ${process.versions.openssl}) has no ${CompliancePolicy.postQuantumGroup}.`;
  return isOffered ? [] : [Finding.of("key-exchange-classical", what, installNode)];
}

interface KnownFault {
  readonly before: string;
  readonly fault: string;
}

/** The versions are from both CVE records, read on 2026-11-22 (GHSA-f8mp-x433-5wpf, GHSA-36p8-mvp6-cv38). */
const wranglerFaults: readonly KnownFault[] = [
  { before: "3.19.0", fault: "wrangler dev lets other sites open its inspector (CVE-2023-7080)" },
  {
    before: "4.59.1",
    fault: "wrangler pages deploy runs commands out of a commit's hash (CVE-2026-0933)",
  },
];

/** workerd's commit 72bbd70e5 of 2026-05-11 added `certRFC9440`, which the Worker reads; read on 2026-11-22. */
const workerdFaults: readonly KnownFault[] = [
  {
    before: "1.20260512.0",
    fault: "it hands the Worker no client certificate, so callers that have only one are refused",
  },
];

/**
 * Findings about the wrangler and workerd of a Worker's project.
 * @param compatibilityDate That of the Worker, such as `2026-11-17`.
 */
export function toolFindings(
  { wrangler, workerd }: WorkerTools,
  compatibilityDate: string,
): readonly Finding[] {
  return [...olderWrangler(wrangler), ...unfitWorkerd(workerd, compatibilityDate)];
}

function olderWrangler(version: string): Finding[] {
  if (!Runtime.isOlder(version, wranglerVersion)) return [];
  const faults = faultsOf(version, wranglerFaults);
  const known = faults.length > 0 ? `: ${faults.join("; ")}` : "";
  const what = `This is wrangler ${version}; Rampart is tested with ${wranglerVersion}${known}.`;
  return [Finding.of("wrangler-version", what, `\`npm install -D wrangler@${wranglerVersion}\``)];
}

function unfitWorkerd(version: string, compatibilityDate: string): Finding[] {
  const faults = faultsOf(version, workerdFaults);
  const date = dateOf(version);
  if (date !== undefined && date < compatibilityDate) {
    faults.push(`it does not know compatibility_date ${compatibilityDate}, and takes an older one`);
  }
  if (faults.length === 0) return [];
  const what = `This is workerd ${version}: ${faults.join("; ")}.`;
  return [Finding.of("workerd-version", what, `\`npm install -D wrangler@${wranglerVersion}\``)];
}

const faultsOf = (version: string, known: readonly KnownFault[]): string[] =>
  known.filter(({ before }) => Runtime.isOlder(version, before)).map(({ fault }) => fault);

/** Reads the date of workerd's version, which is its second number. */
function dateOf(version: string): string | undefined {
  const [, year, month, day] = /^1\.(\d{4})(\d\d)(\d\d)\./.exec(version) ?? [];
  return day === undefined ? undefined : `${year}-${month}-${day}`;
}

/** What to do about a store that cannot be read. */
export const unreadableRemedy = "Run the doctor as the server's user, where the server runs";

/** The least free space, in octets: with less, a store soon takes no record and an issuance log no entry. */
const leastRoom = 16 * 1024 * 1024;

/**
 * Findings about a store's files: their owners, their modes and the free space; none if the store does not exist, one
 * if its files cannot be looked at.
 */
export async function fileFindings(directory: string): Promise<readonly Finding[]> {
  try {
    return [
      ...(await ownersAndModes(directory)),
      ...(await fullDisk(directory)),
      ...(await readOnly(directory)),
    ];
  } catch (error) {
    const code = errorCode(error);
    if (code === undefined) throw error;
    const what = `The files of the store in ${directory} cannot be looked at (${code}).`;
    return [Finding.of("store-unreadable", what, unreadableRemedy)];
  }
}

/**
 * Finds files of the store that have another owner, or that every user may use. A store that does not exist yet has no
 * files.
 */
async function ownersAndModes(directory: string): Promise<readonly Finding[]> {
  const top = await lstat(directory).catch(ignoringAbsence);
  // A path that is no folder has no findings here, because reading the records fails with a finding of its own.
  if (!top?.isDirectory()) return [];
  const open = isOpen(top.mode) ? [notPrivate(directory, "its folder")] : [];
  const files = await filesBelow(directory);
  const owner = ownerOfMost(files, top.uid) ?? top;
  // A folder that its group may use is a volume's, and may have another owner.
  const isVolume = (top.mode & 0o070) === 0o070;
  const folder = isVolume ? [] : [{ path: directory, uid: top.uid }];
  const foreign = [...folder, ...files].filter(({ uid }) => uid !== owner.uid);
  const readable = files.filter(({ mode }) => isOpen(mode));
  return [
    ...open,
    ...(foreign[0] ? [foreignOwner(directory, owner, foreign)] : []),
    ...(readable[0] ? [notPrivate(directory, countOf(readable.length, readable[0].path))] : []),
  ];
}

async function fullDisk(directory: string): Promise<readonly Finding[]> {
  const disk = await statfs(directory).catch(ignoringAbsence);
  return disk ? roomFindings(directory, disk.bavail * disk.bsize) : [];
}

/**
 * Finds a disk with too few octets left: `store-full` if the longest record does not fit. The CA tests the same.
 */
export function roomFindings(directory: string, left: number): readonly Finding[] {
  if (left >= leastRoom) return [];
  const what = `The disk of the store in ${directory} has ${Math.floor(left / 1024)} KiB left.`;
  const name = left < AuthorityStore.maximumRecordOctets ? "store-full" : "store-nearly-full";
  return [Finding.of(name, what, `Make room: \`df -h ${quoted(directory)}\``)];
}

async function readOnly(directory: string): Promise<Finding[]> {
  try {
    await access(directory, constants.W_OK);
    return [];
  } catch (error) {
    if (errorCode(error) !== "EROFS") return [];
    const what = `The file system of the store in ${directory} is read-only.`;
    const remedy = `Mount it for writing: \`findmnt --target ${quoted(directory)}\` shows what is there`;
    return [Finding.of("store-read-only", what, remedy)];
  }
}

/**
 * Guesses the user of the server: the owner of most files. In another user's folder root comes last, because somebody may
 * have typed a verb as root.
 */
function ownerOfMost(files: readonly File[], folderOwner: number): File | undefined {
  const byUser = Map.groupBy(files, ({ uid }) => uid);
  const most = [...byUser].toSorted(
    ([a, some], [b, others]) =>
      (folderOwner === 0 ? 0 : Number(a === 0) - Number(b === 0)) || others.length - some.length,
  );
  return most[0]?.[1][0];
}

interface File {
  readonly path: string;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

async function filesBelow(directory: string): Promise<File[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  const files: File[] = [];
  for (const path of paths) {
    const found = await lstat(path).catch(ignoringAbsence);
    if (found) files.push({ path, uid: found.uid, gid: found.gid, mode: found.mode });
  }
  return files;
}

/** Ignores a missing file, because a record may be deleted meanwhile. */
function ignoringAbsence(error: unknown): undefined {
  if (errorCode(error) !== "ENOENT") throw error;
}

const isOpen = (mode: number): boolean => (mode & 0o007) !== 0;

const countOf = (count: number, path: string): string =>
  count === 1 ? path : `${path} and ${count - 1} more files`;

const notPrivate = (directory: string, what: string): Finding =>
  Finding.of(
    "record-not-private",
    `The store in ${directory} is open to every user of the machine: ${what}.`,
    `\`chmod -R o-rwx ${quoted(directory)}\``,
  );

function foreignOwner(
  directory: string,
  { uid, gid }: Pick<File, "uid" | "gid">,
  foreign: readonly Pick<File, "path" | "uid">[],
): Finding {
  const [{ path, uid: other } = { path: directory, uid }] = foreign;
  return Finding.of(
    "record-owner",
    `In the store in ${directory}, ${countOf(foreign.length, path)} ${foreign.length === 1 ? "belongs" : "belong"} to user ${other}, and the rest to user ${uid}.`,
    `\`chown -R ${uid}:${gid} ${quoted(directory)}\``,
  );
}

/** The id that the comment of `wrangler.toml` shows. */
const exampleNamespaceId = "0123456789abcdef0123456789abcdef";

/** Finds the examples that a `wrangler.toml` still has outside `[vars]`. */
export function wranglerFindings(text: string): readonly Finding[] {
  const ifSet = (line: RegExp, what: string, remedy: string): readonly Finding[] =>
    line.test(text) ? [Finding.of("configuration-example", what, remedy)] : [];
  return [
    ...ifSet(
      new RegExp(`^\\s*id\\s*=\\s*"${exampleNamespaceId}"`, "m"),
      "The KV namespace AUTHORITIES has the example id.",
      "`npx wrangler kv namespace create AUTHORITIES`, and set the id that it prints",
    ),
    ...ifSet(
      /^\s*routes\s*=.*[".]example\.(?:com|net|org)"/m,
      "routes has an example host name.",
      "Set the host name on which the CA answers",
    ),
  ];
}
