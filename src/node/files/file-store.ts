import { randomUUID } from "node:crypto";
import { type FileHandle, open, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AuthorityStore, RecordName, type StoredRecord } from "../../custody/authority-store.ts";
import type { RecordKind } from "../../custody/record-kinds.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { AtomicFile } from "../../program/files/atomic-file.ts";
import { errorCode } from "../../program/files/small-file.ts";
import { asOwner, giveToOwner, StoreOwner } from "./store-owner.ts";

/** How many files are open at once, because the connections of callers need descriptors as well. */
const filesAtOnce = 16;

const recordName = /^([0-9a-f][0-9a-f-]{1,127})\.json$/;
/** The name of a temporary file. In older versions it had no `.json`. */
const unfinishedName = /^\.[0-9a-f][0-9a-f-]{1,127}(?:\.json)?\.[0-9a-f-]{36}$/;

/** Opens stores in folders. */
export const FileStore = {
  /**
   * The store in a directory of this machine: one file a record, such as `authorities/<id>.json`, readable
   * by its owner alone.
   *
   * `put` writes a record to a temporary file, flushes it to the disk, and renames it. So a reader in any
   * process sees the whole record or its predecessor, and a confirmed record survives a power failure.
   * Several processes may share the directory; another may write between the comparison with `before` and the write.
   *
   * Every file belongs to the owner of the folder of authorities, who runs the server. A file that root
   * writes becomes that owner's. No other user can write.
   *
   * @param main The directory whose owner a new store gets.
   * @throws OperatorError when the directory is another user's, or is open to every user. Error when it
   *   can neither be used nor created.
   */
  async open(directory: string, main: string = directory): Promise<AuthorityStore> {
    await asOwner(directory, () => prepare(directory, main));
    return {
      load: () => loadAll(directory),
      put: async (record, before) => {
        if (before !== undefined && (await load(directory, record))?.value !== before) {
          return false;
        }
        const path = pathOf(directory, record);
        await asOwner(dirname(path), () => put(path, record.value));
        return true;
      },
      delete: async (name) => {
        const path = pathOf(directory, name);
        await asOwner(dirname(path), () => rm(path, { force: true }));
        await AtomicFile.flushFolder(dirname(path));
      },
      tryWriting: () => tryWriting(folderOf(directory, "authority")),
    };
  },

  /**
   * A read-only store in a directory: a write rejects, and no folder is created. A directory that does not exist is an
   * empty store.
   */
  view(directory: string): AuthorityStore {
    const refuse = async (): Promise<never> => {
      throw new Error("a store that is only looked at is not written to");
    };
    const isThere = async (): Promise<boolean> =>
      (await stat(folderOf(directory, "authority")).catch(ignoring("ENOENT"))) !== undefined;
    return {
      load: async () => ((await isThere()) ? loadAll(directory, lacking) : []),
      put: refuse,
      delete: refuse,
    };
  },

  /** Opens the stores of named signers, each in a subdirectory. The returned function throws for any other signer. */
  async openSigners({
    storeDirectory,
    ca: { signers },
  }: SignerDirectories): Promise<(signer: string) => AuthorityStore> {
    const stores = new Map<string, AuthorityStore>();
    for (const { name } of signers) {
      const directory = signerDirectory(storeDirectory, name);
      stores.set(name, await FileStore.open(directory, storeDirectory));
    }
    return (signer) => {
      const store = stores.get(signer);
      if (store) return store;
      throw new Error("a signer without a store");
    };
  },

  /** The stores of named signers, read-only. */
  viewSigner:
    (storeDirectory: string) =>
    (signer: string): AuthorityStore =>
      FileStore.view(signerDirectory(storeDirectory, signer)),
};

/** Writes and removes a file as long as the longest record. After a power failure, the next start removes it. */
async function tryWriting(folder: string): Promise<void> {
  const path = join(folder, `.00.${randomUUID()}`);
  try {
    await using file = await open(path, "wx", 0o600);
    const { bytesWritten } = await file.write(Buffer.alloc(AuthorityStore.maximumRecordOctets));
    if (bytesWritten < AuthorityStore.maximumRecordOctets) throw new Error("the disk is full");
  } finally {
    await rm(path, { force: true });
  }
}

async function prepare(directory: string, main: string): Promise<void> {
  const owner = await StoreOwner.of(folderOf(main, "authority"));
  await StoreOwner.makeFolder(directory, owner);
  const { mode } = await stat(directory);
  if ((mode & 0o007) !== 0) {
    throw new OperatorError(
      `${directory} is open to every user of the machine: \`chmod o-rwx ${directory}\``,
    );
  }
  for (const kind of RecordName.kinds) {
    const folder = folderOf(directory, kind);
    await StoreOwner.makeFolder(folder, owner);
    await asOwner(folder, () => sweep(folder));
  }
}

const signerDirectory = (storeDirectory: string, signer: string): string =>
  join(storeDirectory, "signers", signer);

interface SignerDirectories {
  readonly storeDirectory: string;
  readonly ca: { readonly signers: readonly { readonly name: string }[] };
}

/**
 * Rethrows even the error of a missing folder. The program made it when it started, so its file system may have been
 * unmounted, and it must not count as empty.
 */
const failing = (error: unknown): never => {
  throw error;
};

/** Accepts a missing folder in a read-only store: an older version may not have made it. */
const lacking: (error: unknown) => undefined = ignoring("ENOENT");

async function loadAll(
  directory: string,
  onFault: (error: unknown) => undefined = failing,
): Promise<StoredRecord[]> {
  const lists = RecordName.kinds.map((kind) => list(directory, kind, onFault));
  const names = (await Promise.all(lists)).flat();
  if (names.length > AuthorityStore.maximumRecords) {
    throw new Error(`more than ${AuthorityStore.maximumRecords} records in ${directory}`);
  }
  const records: StoredRecord[] = [];
  for (let i = 0; i < names.length; i += filesAtOnce) {
    const some = names.slice(i, i + filesAtOnce).map((name) => load(directory, name));
    records.push(...(await Promise.all(some)).filter((record) => record !== undefined));
  }
  return records;
}

async function list(
  directory: string,
  kind: RecordKind,
  onFault: (error: unknown) => undefined,
): Promise<RecordName[]> {
  const files = (await readdir(folderOf(directory, kind)).catch(onFault)) ?? [];
  return files.flatMap((file) => {
    const [, id] = recordName.exec(file) ?? [];
    return id === undefined ? [] : [{ kind, id }];
  });
}

/** Loads a record; `undefined` for a listed file that was deleted meanwhile. */
async function load(directory: string, name: RecordName): Promise<StoredRecord | undefined> {
  await using file = await open(pathOf(directory, name), "r").catch(ignoring("ENOENT"));
  return file && { ...name, value: await readText(file) };
}

async function readText(file: FileHandle): Promise<string> {
  const { size } = await file.stat();
  const { buffer, bytesRead } = await file.read(
    Buffer.alloc(Math.min(size, AuthorityStore.maximumRecordOctets)),
  );
  return buffer.toString("utf8", 0, bytesRead);
}

async function put(path: string, value: string): Promise<void> {
  const folder = dirname(path);
  await AtomicFile.replace(path, value, { mode: 0o600, give: (file) => giveToOwner(file, folder) });
  await AtomicFile.flushFolder(folder);
}

/**
 * Removes the temporary files of processes that were killed. If another process is writing one now, its
 * `put` fails, and the next rotation repeats it.
 */
async function sweep(directory: string): Promise<void> {
  const names = (await readdir(directory)).filter((name) => unfinishedName.test(name));
  await Promise.all(names.map((name) => rm(join(directory, name), { force: true })));
}

const folderOf = (directory: string, kind: RecordKind): string =>
  dirname(pathOf(directory, { kind, id: "00" }));

function pathOf(directory: string, name: RecordName): string {
  if (!recordName.test(`${name.id}.json`)) throw new Error("a record's id is hexadecimal");
  return join(directory, `${RecordName.key(name)}.json`);
}

function ignoring(code: string): (error: unknown) => undefined {
  return (error) => {
    if (errorCode(error) === code) return undefined;
    throw error;
  };
}
