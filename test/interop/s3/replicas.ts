import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { BucketSpace } from "../../../src/node/stores/bucket-space.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import { randomKek } from "../../testkit/configuration.ts";
import type { SharedService } from "../replicas/shared-service.ts";
import { playReplicaStory } from "../replicas/story.ts";
import { bucket, credential, type Gateway } from "./gateway.ts";
import type { Scene } from "./scenes.ts";

/** A bucket of the real service, by the keys and the variables that an operator writes. */
function bucketService(
  { place, port, ca, rootsFile, restart }: Gateway,
  prefix: string,
): SharedService {
  return {
    name: "versitygw",
    port,
    restart,
    keysBehind: (other) => ({
      STORE: "s3",
      STORE_BUCKET: bucket,
      STORE_PREFIX: prefix,
      S3_ENDPOINT: `https://127.0.0.1:${other}`,
      S3_CA_FILE: rootsFile,
    }),
    environment: {
      KEK: randomKek(),
      AWS_ACCESS_KEY_ID: credential.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credential.secretAccessKey,
    },
    space: new BucketSpace({ ...place, prefix }, NodeFetch.trusting(ca), () => new Date()),
  };
}

/** Processes of the program itself share a bucket, through everything that may befall them. */
export async function playReplicas({ gateway, folder }: Scene): Promise<string> {
  const own = join(folder, "replicas");
  await mkdir(own);
  return playReplicaStory(bucketService(gateway, "replicas/"), own);
}
