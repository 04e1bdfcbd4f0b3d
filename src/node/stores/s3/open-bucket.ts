import type { ObjectSpace } from "../../../custody/shared/object-space.ts";
import type { Fetch } from "../../../foundation/fetch.ts";
import type { Pause } from "../../../foundation/pause.ts";
import { readRootFile } from "../../../program/files/pem-file.ts";
import { fetchTrusting } from "../../../program/http/node-fetch.ts";
import { createPatience } from "../patient-space.ts";
import { createBucketClient } from "./bucket-client.ts";
import type { BucketPlace } from "./bucket-place.ts";
import { createBucketSpace } from "./bucket-space.ts";
import { type ProvenSpace, proveFirst } from "./proven-space.ts";

/** `ConditionalRequestConflict`: another request for the object is under way. */
const requestConflict = 409;

/** R2 refuses a second write to one name within a second. */
const attempts = 6;

/** @throws OperatorError when the roots or the credential cannot be read. */
export async function openBucket(place: BucketPlace, clock: () => Date): Promise<ProvenSpace> {
  const fetch = fetchTrusting(await readRootFile(place.rootsFile));
  await place.credentials();
  return proveFirst(patientBucket(place, fetch, clock), serviceOf(place));
}

/** The objects of a bucket. It repeats each request that the service fails for a moment. */
export function patientBucket(
  place: BucketPlace,
  fetch: Fetch,
  clock: () => Date,
  pause?: Pause,
): ObjectSpace {
  const attempt = createPatience(serviceOf(place), {
    pause,
    alsoPassing: requestConflict,
    attempts,
  });
  const send = createBucketClient(place, fetch, clock);
  return createBucketSpace((...request) => attempt(() => send(...request)), place.prefix);
}

/** The name of a bucket's service in sentences. */
export const serviceOf = ({ url }: Pick<BucketPlace, "url">): string => `the bucket ${url}`;
