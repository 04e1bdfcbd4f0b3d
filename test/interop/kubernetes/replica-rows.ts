import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { randomKek } from "../../testkit/configuration.ts";
import type { Row } from "../outcome-table.ts";
import type { SharedService } from "../replicas/shared-service.ts";
import { playReplicaStory } from "../replicas/story.ts";
import { mint } from "./cluster/accounts.ts";
import type { Scene } from "./cluster/scene.ts";
import { emptied, storeClient } from "./store-rows.ts";

/** Secrets of a real API server, with the rights of the component. */
async function secretsService(scene: Scene, folder: string): Promise<SharedService> {
  const { plane } = scene;
  await emptied(await storeClient(scene));
  const token = await mint(plane, "istio-system", "rampart", { audiences: [] });
  const [tokenFile, caFile] = [join(folder, "token"), join(folder, "ca.crt")];
  await writeFile(tokenFile, token);
  await writeFile(caFile, plane.ca);
  return {
    port: Number(new URL(plane.server).port),
    keysBehind: (port) => ({
      STORE: "kubernetes",
      STORE_NAMESPACE: "rampart-store",
      KUBERNETES_SERVER: `https://127.0.0.1:${port}`,
      KUBERNETES_CA_FILE: caFile,
      KUBERNETES_TOKEN_FILE: tokenFile,
    }),
    environment: { KEK: randomKek() },
    restart: plane.restart,
  };
}

async function playStory(scene: Scene): Promise<void> {
  const folder = join(scene.folder, "replicas");
  await mkdir(folder);
  await playReplicaStory(await secretsService(scene, folder), folder);
}

export const replicaRows: readonly Row<Scene>[] = [
  [
    "two replicas through a rotation, a partition, a loss, an update, a restart of the API server: no renewal fails",
    playStory,
  ],
];
