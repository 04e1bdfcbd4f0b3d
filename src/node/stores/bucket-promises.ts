import { randomUUID } from "node:crypto";
import type { ObjectSpace } from "../../custody/shared/object-space.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";

/**
 * Writes, reads, lists and removes an object of its own, to see whether a service keeps the promises of the port.
 *
 * @param service The service's name in sentences.
 * @throws OperatorError for a broken promise, FetchError for a service that cannot be asked.
 */
export async function requirePromises(space: ObjectSpace, service: string): Promise<void> {
  const key = probeKey();
  const broken = (promise: string): OperatorError =>
    new OperatorError(`${service} cannot hold the store: it ${promise}`);
  const require = (isKept: boolean, promise: string): void => {
    if (!isKept) throw broken(promise);
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
    const isRefusal = error instanceof FetchError && error.status === notImplemented;
    throw isRefusal ? broken("implements no conditional writes") : error;
  }
}

const notImplemented = 501;

const isSilence = (error: unknown): boolean =>
  error instanceof FetchError && error.status === undefined;

/** An object that is no record. Its folder is part of docs/how-to/s3.md. */
const probeKey = (): string => `probes/${randomUUID()}`;
