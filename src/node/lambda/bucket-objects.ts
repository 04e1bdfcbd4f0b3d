import { ConfigurationError } from "../../foundation/errors.ts";
import { type Fetch, FetchError } from "../../foundation/fetch.ts";
import { type BucketAnswer, createBucketClient } from "../stores/bucket-client.ts";
import type { BucketPlace } from "../stores/bucket-place.ts";
import { createRetries } from "../stores/retries.ts";
import { withWholeReads } from "../stores/whole-reads.ts";
import type { ConditionalObjects } from "./staged-log.ts";

/** More than a stage has, whose entries are published in time. */
const maximumOctets = 32 * 1024 * 1024;

/** `ConditionalRequestConflict`: another request for the object is under way. */
const requestConflict = 409;

/**
 * The place of a log in the bucket of a store: beside the records, whose list has to stay short.
 *
 * @throws ConfigurationError for a store without a prefix, below which everything in the bucket is.
 */
export function logPlace(place: BucketPlace, origin: string): BucketPlace {
  if (place.prefix === "") {
    throw new ConfigurationError(["STORE_PREFIX: is required beside LOG_ORIGIN, such as mesh-1/"]);
  }
  const name = Buffer.from(origin).toString("hex");
  return { ...place, prefix: `${place.prefix.slice(0, -1)}-log/${name}/` };
}

/** The objects of a log in a bucket, by their paths in it. A write is a PUT with a condition on the entity tag. */
export function bucketObjects(
  place: BucketPlace,
  fetch: Fetch,
  clock: () => Date,
): ConditionalObjects {
  const client = withWholeReads(createBucketClient(place, fetch, clock));
  const attempt = createRetries(`the bucket ${place.url}`, { alsoPassing: requestConflict });
  const nameOf = (path: string): string => `${place.prefix}${path}`;

  return {
    read: async (path) => {
      const request = { method: "GET", name: nameOf(path) } as const;
      const answer = await attempt(() => client(request, maximumOctets));
      if (answer.outcome !== "done") return undefined;
      if (!answer.octets) throw new FetchError(`has an object ${path} that is too long`);
      return { octets: new Uint8Array(answer.octets), version: taggedVersion(answer) };
    },
    write: async (path, body, version) => {
      const request = { method: "PUT", name: nameOf(path), body, replaces: { version } } as const;
      const answer = await attempt(() => client(request));
      return answer.outcome === "done" ? taggedVersion(answer) : undefined;
    },
  };
}

function taggedVersion({ version }: Extract<BucketAnswer, { outcome: "done" }>): string {
  if (version === "") throw new FetchError("answered without an entity tag");
  return version;
}
