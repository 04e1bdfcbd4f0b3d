import type { IssuedCertificates } from "../../ca/issuance/idempotency.ts";
import { CaError } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { issuedFolder, type ObjectSpace, type StoredObject } from "./object-space.ts";

/** Where issued certificates are removed: by their age, without a look at what they are. */
interface Ages {
  /** When each object below a folder was written last, in milliseconds of a clock that may differ from this process's. */
  readonly written: (folder: string) => Promise<ReadonlyMap<string, number>>;
  readonly remove: (key: string) => Promise<void>;
}

/** How long a certificate is repeated: an older one is of no use. */
const usefulMilliseconds = 3600_000;

/** How many certificates are kept for one issuer of tokens: its signers have far fewer requests under way. */
const maximumKept = 1000;

/** After how many writes of a process the oldest certificates are removed. Its first write removes them as well. */
const pruneEvery = 100;

const removalsAtOnce = 16;

/** Creates the function to call after each write into a folder, to remove what is too old, and the oldest of too many. */
export function createPruning({ written, remove }: Ages, maximum: number = maximumKept) {
  const writes = new Map<string, number>();
  const removals = new Semaphore(removalsAtOnce);
  return async (folder: string): Promise<void> => {
    const count = writes.get(folder) ?? 0;
    writes.set(folder, count + 1);
    if (count % pruneEvery > 0) return;
    const newestFirst = [...(await written(folder))].toSorted(([, a], [, b]) => b - a);
    // The newest was written just now.
    const [[, now = 0] = []] = newestFirst;
    const useless = newestFirst.filter(
      ([, at], i) => i >= maximum || now - at > usefulMilliseconds,
    );
    await Promise.all(useless.map(([key]) => removals.run(() => remove(key))));
  };
}

/**
 * Keeps issued certificates as objects that no list of records has. The service decides which replica writes first.
 * @throws CaError `store-unreachable` from every call.
 */
export function issuedCertificatesAt(
  space: Pick<ObjectSpace, "read" | "write"> & Ages,
  maximum?: number,
): IssuedCertificates {
  const prune = createPruning(space, maximum);
  const keyOf = (name: string): string => `${issuedFolder}${name}`;
  const read = async (name: string): Promise<Bytes | undefined> => {
    const found = await space.read(keyOf(name));
    return found && derOf(found);
  };
  const create: IssuedCertificates["create"] = async (name, der, stale) => {
    const key = keyOf(name);
    const found = stale && (await space.read(key));
    const replaced = found && Bytes.equal(derOf(found), stale) ? found.version : undefined;
    if (!(await space.write(key, Base64.format(der), replaced))) return read(name);
    await prune(key.slice(0, key.lastIndexOf("/") + 1));
    return der;
  };
  return {
    read: (name) => read(name).catch(refuse),
    create: (...certificate) => create(...certificate).catch(refuse),
  };
}

const derOf = ({ value }: StoredObject): Bytes => Base64.parse(value) ?? new Uint8Array();

function refuse(error: unknown): never {
  if (!(error instanceof FetchError)) throw error;
  throw new CaError({ reason: "store-unreachable" }, "no certificate can be stored", error);
}
