import { onTestFinished } from "vitest";
import { patientBucket } from "../../../../src/node/stores/s3/open-bucket.ts";
import { type S3Api, startS3Api } from "../../../testkit/stores/s3-api.ts";

/** A record, its key in the space, and its name in the bucket. */
export const id = "ab".repeat(20);
export const key = `authorities/${id}`;
export const name = `mesh-1/${key}`;

const noPause = async (): Promise<void> => {};

/** A bucket until the test ends, a space of objects in it, and what makes another one. */
export async function startBucket(changes: Partial<S3Api["place"]> = {}) {
  const api = await startS3Api();
  onTestFinished(api.close);
  const time = { now: Date.now() };
  const clock = () => new Date(time.now);
  const another = () => patientBucket({ ...api.place, ...changes }, fetch, clock, noPause);
  return { api, another, space: another(), clock, time };
}
