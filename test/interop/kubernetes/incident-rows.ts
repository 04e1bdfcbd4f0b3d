import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type CallingPod, playIncident } from "../replicas/incident.ts";
import { bucket, credential, startGateway } from "../s3/gateway.ts";
import { fromGoProxy } from "../software.ts";
import { createPod, type Pod, type Scene } from "./cluster/scene.ts";
import { secretsService } from "./replica-rows.ts";
import type { Row } from "./rows.ts";
import { tokenOf } from "./token-rows.ts";

/** A CA with its records in Secrets and its log in a bucket, asked with tokens that the API server bound to pods. */
async function playIncidentInCluster(scene: Scene): Promise<void> {
  const versity = await fromGoProxy("github.com/versity/versitygw/cmd/versitygw@v1.8.0");
  if ("missing" in versity) throw new Error(versity.missing);
  const folder = join(scene.folder, "logged");
  await mkdir(folder);
  const { plane } = scene;
  const gateway = await startGateway(versity.program, folder);
  try {
    const secrets = await secretsService(scene, folder);
    const callerOf = async (pod: Pod): Promise<CallingPod> => ({
      ...pod,
      token: await tokenOf(plane, pod),
    });
    const mesh = {
      service: {
        ...secrets,
        environment: {
          ...secrets.environment,
          AWS_ACCESS_KEY_ID: credential.accessKeyId,
          AWS_SECRET_ACCESS_KEY: credential.secretAccessKey,
        },
      },
      log: {
        LOG_STORE: `${bucket}/incident-log/`,
        S3_ENDPOINT: gateway.origin,
        S3_CA_FILE: gateway.rootsFile,
      },
      ISSUERS: [{ issuer: plane.issuer, jwks: await plane.call("GET", "/openid/v1/jwks") }],
      node: "node-1",
      onNode: [await callerOf(scene.web), await callerOf(scene.ztunnel)],
      taken: await callerOf(scene.faraway),
      healthy: await callerOf(await createPod(plane, "shop", "web", "node-2")),
    };
    console.log(`        ${await playIncident(mesh, folder)}`);
  } finally {
    await gateway.end();
  }
}

/** The row on the issuance log of a CA in Secrets. */
export const incidentRows: readonly Row<Scene>[] = [
  [
    "records in Secrets, the log in a bucket: revoked and denied by node and by pod, and replayed",
    playIncidentInCluster,
  ],
];
