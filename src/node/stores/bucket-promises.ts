import { getFips, hash, randomUUID } from "node:crypto";
import { Backoff } from "../../foundation/backoff.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { type Fetch, FetchError } from "../../foundation/fetch.ts";
import { type Pause, pause as systemPause } from "../../foundation/pause.ts";
import { type BucketAnswer, createBucketClient, type SendToBucket } from "./bucket-client.ts";
import type { ObjectSpace } from "./object-space.ts";
import { createRetries } from "./retries.ts";
import type { BucketPlace } from "./store-place.ts";

/** `ConditionalRequestConflict`: another request for the object is under way. */
const requestConflict = 409;

/** R2 refuses a second write to one name within a second. */
const attempts = 6;

/** A client of a bucket that reads whole objects, and repeats what the service fails for a moment. */
export function createSteadyClient(
  place: BucketPlace,
  fetch: Fetch,
  clock: () => Date,
  pause?: Pause,
): SendToBucket {
  const send = withWholeReads(createBucketClient(place, fetch, clock), pause);
  const options = { pause, alsoPassing: requestConflict, attempts };
  const attempt = createRetries(`the bucket ${place.url}`, options);
  return (...request) => attempt(() => send(...request));
}

/**
 * So many writers race for one object. A service that checks and then writes lets several of them pass; one that has
 * them wait for each other answers so many in time.
 */
const racers = 4;

/**
 * Writes, reads, lists and removes an object of its own, to see whether a service keeps the promises of the port, also
 * between writers at once.
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
    const created = await race(space, key);
    require(created.length > 0, "says of a new object that it is there already");
    const isTwice = await space.write(key, "twice");
    require(!isTwice, `ignores If-None-Match, ${consequence}`);
    require(created.length === 1, `lets several writers at once create an object, ${consequence}`);
    const first = await space.read(key);
    require(first?.value === created[0], "does not answer what was written");
    const replaced = await race(space, key, first?.version);
    require(replaced.length > 0, "replaces no object with If-Match");
    const isStale = await space.write(key, "stale", first?.version);
    require(!isStale, `ignores If-Match, ${consequence}`);
    require(replaced.length === 1, `lets several writers at once replace it, ${consequence}`);
    const second = (await space.list("now")).get(key);
    require(second?.value === replaced[0], "does not list what was just written");
    await space.remove(key);
    require((await space.read(key)) === undefined, "answers an object that was removed");
    const isBack = await space.write(key, "back", second?.version);
    require(!isBack, "creates an object with If-Match, so that what one replica removes comes back");
  } catch (error) {
    const removal = space.remove(key).catch(() => {});
    // A service that has not answered would answer neither, and its process has to start.
    if (!isSilence(error)) await removal;
    const isRefusal = error instanceof FetchError && error.status === notImplemented;
    throw isRefusal ? broken("implements no conditional writes") : error;
  }
}

const consequence = "so that replicas would undo each other's writes";

/**
 * Has writers write an object at once.
 *
 * @returns What was confirmed: a service refuses a writer that it would have to keep waiting.
 * @throws The failure of a writer where none was confirmed.
 */
async function race(space: ObjectSpace, key: string, version?: string): Promise<string[]> {
  const values = Array.from({ length: racers }, (_, i) => `${i} after ${version ?? "nothing"}`);
  const writes = await Promise.allSettled(values.map((each) => space.write(key, each, version)));
  const confirmed = values.filter((_, i) => {
    const write = writes[i];
    return write?.status === "fulfilled" && write.value;
  });
  const failed = writes.find(({ status }) => status === "rejected");
  if (confirmed.length === 0 && failed?.status === "rejected") throw failed.reason;
  return confirmed;
}

const notImplemented = 501;

const isSilence = (error: unknown): boolean =>
  error instanceof FetchError && error.status === undefined;

/** An object that is no record. Its folder is part of docs/how-to/s3.md. */
const probeKey = (): string => `probes/${randomUUID()}`;

const maximumReads = 40;
/** The longest body of a write that shows how tags are made: a digest of a log's stage costs as much as its signature. */
const maximumDigested = 65_536;
/** So often in a row a service answers the same, about a second long, whose tags are no digests. */
const readsInARow = 7;

/**
 * A service that keeps tags apart from octets may answer the tag of the next write beside the octets of the last. Who
 * then replaces that version has undone the write. So a tag that is not the digest of its octets is read again, unless
 * the service makes its tags in another way, as with keys in KMS, which its answers to writes show.
 */
function withWholeReads(send: SendToBucket, pause: Pause = systemPause): SendToBucket {
  // OpenSSL has no MD5 under FIPS.
  const canDigest = !getFips();
  let hasDigests = canDigest;
  async function readWhole(...request: Parameters<SendToBucket>): Promise<BucketAnswer> {
    let before = "";
    let same = 0;
    for (let reads = 0; reads < maximumReads; reads++) {
      const answer = await send(...request);
      if (!hasDigests || answer.outcome !== "done" || !answer.octets) return answer;
      const digest = digestOf(answer.octets);
      if (answer.version === digest) return answer;
      const seen = `${answer.version} ${digest}`;
      same = seen === before ? same + 1 : 1;
      before = seen;
      if (same === readsInARow) {
        hasDigests = false;
        return answer;
      }
      await pause(Backoff.milliseconds(Backoff.usual.contention, same), request[0].signal);
    }
    throw new FetchError("answers an object beside the tag of another");
  }

  return async (...request) => {
    const [{ method, name, body = "" }] = request;
    if (method === "GET" && name !== "") return readWhole(...request);
    const answer = await send(...request);
    const isShort = body.length <= maximumDigested;
    if (canDigest && isShort && method === "PUT" && answer.outcome === "done")
      hasDigests = answer.version === digestOf(body);
    return answer;
  };
}

const digestOf = (octets: string | Uint8Array): string => hash("md5", octets, "hex");
