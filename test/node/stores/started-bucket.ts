import { onTestFinished } from "vitest";
import { BucketSpace } from "../../../src/node/stores/bucket-space.ts";
import { type S3Api, startS3Api } from "../../testkit/stores/s3-api.ts";

/** A record, its key in the space, and its name in the bucket. */
export const id = "ab".repeat(20);
export const key = `authorities/${id}`;
export const name = `mesh-1/${key}`;

const noPause = async (): Promise<void> => {};

/** A bucket until the test ends, a space in it that is proven if it can be, and what makes other spaces, unproven. */
export async function startBucket(changes: Partial<S3Api["place"]> = {}) {
  const api = await startS3Api();
  onTestFinished(api.close);
  const time = { now: Date.now() };
  const clock = () => new Date(time.now);
  const another = (recentSeconds = 0) =>
    new BucketSpace({ ...api.place, ...changes }, fetch, clock, { recentSeconds, pause: noPause });
  const space = another();
  await space.prove().catch(() => {});
  api.asked.length = 0;
  return { api, another, space, clock, time };
}
