import { randomUUID } from "node:crypto";
import type { ObjectSpace } from "../../../custody/shared/object-space.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { FetchError } from "../../../foundation/fetch.ts";

/** A space that writes nothing before its service has shown that it keeps the promises of the port. */
export interface ProvenSpace {
  readonly space: ObjectSpace;
  /** @throws OperatorError for a service that breaks a promise, FetchError for one that cannot be asked. */
  readonly prove: () => Promise<void>;
}

/**
 * Many services that are compatible with S3 ignore the conditions of a write: two replicas would then undo each
 * other's writes. An object of its own shows once in each process whether this one does.
 *
 * @param service The service's name in sentences.
 */
export function proveFirst(space: ObjectSpace, service: string): ProvenSpace {
  let proof: Promise<void> | undefined;

  function prove(): Promise<void> {
    proof ??= requirePromises(space, service).catch((error: unknown) => {
      const isPassing = error instanceof FetchError && error.status !== notImplemented;
      if (!isPassing) throw refused(service, error);
      // A service that was away for a moment has broken no promise.
      proof = undefined;
      throw error;
    });
    return proof;
  }

  return {
    prove,
    space: {
      ...space,
      write: async (...object) => {
        await prove();
        return space.write(...object);
      },
    },
  };
}

const notImplemented = 501;

const refused = (service: string, error: unknown): unknown =>
  error instanceof FetchError
    ? new OperatorError(`${service} cannot hold the store: it implements no conditional writes`)
    : error;

const isSilence = (error: unknown): boolean =>
  error instanceof FetchError && error.status === undefined;

/** An object that is no record. Its folder is part of docs/how-to/s3.md. */
const probeKey = (): string => `probes/${randomUUID()}`;

/** @throws OperatorError, FetchError */
async function requirePromises(space: ObjectSpace, service: string): Promise<void> {
  const key = probeKey();
  const require = (isKept: boolean, promise: string): void => {
    if (isKept) return;
    throw new OperatorError(`${service} cannot hold the store: it ${promise}`);
  };
  try {
    require(await space.write(key, "first"), "says of a new object that it is there already");
    const isTwice = await space.write(key, "second");
    require(!isTwice, "ignores If-None-Match, so that replicas would undo each other's writes");
    const first = await space.read(key);
    require(first?.value === "first", "does not answer what was written");
    const isReplaced = await space.write(key, "second", first?.version);
    require(isReplaced, "replaces no object with If-Match");
    const isStale = await space.write(key, "third", first?.version);
    require(!isStale, "ignores If-Match, so that replicas would undo each other's writes");
    const second = (await space.list("now")).get(key);
    require(second?.value === "second", "does not list what was just written");
    await space.remove(key);
    require((await space.read(key)) === undefined, "answers an object that was removed");
    const isBack = await space.write(key, "fourth", second?.version);
    require(!isBack, "creates an object with If-Match, so that what one replica removes comes back");
  } catch (error) {
    const removal = space.remove(key).catch(() => {});
    // A service that has not answered would answer neither, and its process has to start.
    if (!isSilence(error)) await removal;
    throw error;
  }
}
