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

/** R2 refuses a second write to one name within a second, so a write needs several attempts. */
const attempts = 6;

/** Creates a client of a bucket that reads consistent objects, and repeats requests after transient failures. */
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
 * How many writers race for one object: enough for several to succeed at a service that checks before it writes, and
 * few enough for one that serializes them to answer in time.
 */
const racers = 4;

/**
 * Writes, reads, lists and removes an object of its own, to verify that a service keeps the promises of
 * {@link ObjectSpace}, also between concurrent writers.
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
    // Not awaited if the service did not answer, because it would not answer this either, and the start must go on.
    if (!isSilence(error)) await removal;
    const isRefusal = error instanceof FetchError && error.status === notImplemented;
    throw isRefusal ? broken("implements no conditional writes") : error;
  }
}

const consequence = "so that replicas would undo each other's writes";

/**
 * Lets several writers write an object at once.
 *
 * @returns The confirmed values. A service may refuse a writer instead of keeping it waiting.
 * @throws The failure of a writer if no write was confirmed.
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

/** The key of an object that is no record. docs/how-to/s3.md names its folder. */
const probeKey = (): string => `probes/${randomUUID()}`;

const maximumReads = 40;
/** The longest body whose digest is computed after a write. For a log's stage it would cost as much as signing. */
const maximumDigested = 65_536;
/** After how many equal answers in a row, about a second, a tag counts as no digest. */
const readsInARow = 7;

/**
 * Reads an object again if its tag is not the digest of its octets. A service that stores tags apart from octets may
 * answer the octets of one write with the tag of the next. A writer that replaces that version would undo the next write.
 * Services whose tags are no digests, such as with keys in KMS, are recognized by their answers to writes.
 */
function withWholeReads(send: SendToBucket, pause: Pause = systemPause): SendToBucket {
  // Under FIPS, OpenSSL lacks MD5.
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
