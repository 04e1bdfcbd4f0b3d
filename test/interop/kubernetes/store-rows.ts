import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { issuedCertificatesAt } from "../../../src/node/stores/issued-objects.ts";
import type { ObjectSpace } from "../../../src/node/stores/object-space.ts";
import { createSecretSpace, issuedSecrets } from "../../../src/node/stores/secret-space.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import type { Row } from "../outcome-table.ts";
import { keepPromises } from "../store-promises.ts";
import { mint } from "./cluster/accounts.ts";
import { applyManifest } from "./cluster/manifests.ts";
import type { Scene } from "./cluster/scene.ts";

const namespace = "rampart-store";

/** A client with the token of the ServiceAccount `rampart`, and the rights of the component. */
export async function storeClient({ plane }: Scene): Promise<KubernetesClient> {
  const accounts = "/api/v1/namespaces/istio-system/serviceaccounts";
  const account = { metadata: { name: "rampart" } };
  // Another row may have made it.
  await plane.call("POST", accounts, account).catch(() => ({}));
  await applyManifest(plane, "components/kubernetes-store/kubernetes-store.yaml");
  const token = await mint(plane, "istio-system", "rampart", { audiences: [] });
  const access = { server: plane.server, credential: () => token };
  return KubernetesClient.create(access, NodeFetch.trusting(plane.ca));
}

/** Empties the namespace of records, and of nothing else. */
export async function emptied(client: KubernetesClient): Promise<ObjectSpace> {
  const space = createSecretSpace(client.send, namespace);
  for (const key of (await space.list("now")).keys()) await space.remove(key);
  return space;
}

async function keepsPromises(scene: Scene): Promise<string> {
  const client = await storeClient(scene);
  return keepPromises(() => emptied(client));
}

async function keepsIssuedCertificates(scene: Scene): Promise<void> {
  const { send } = await storeClient(scene);
  const space = createSecretSpace(send, namespace);
  const written = (beginning: string) => issuedSecrets(send, namespace, beginning);
  const open = () => issuedCertificatesAt({ ...space, written }, 3);
  const der = (octet: number) => new Uint8Array([octet]);
  const racing = [0, 1, 2, 3].map((each) => open().create("a/0", der(each)));
  const kept = await Promise.all(racing);
  assert.equal(new Set(kept.map((each) => each?.[0])).size, 1);
  // The API server dates writes by the second.
  const nextSecond = () => sleep(1100);
  for (const each of [1, 2]) {
    await nextSecond();
    await open().create(`a/${each}`, der(each));
  }
  await nextSecond();
  assert.deepEqual(await open().create("a/0", der(9), kept[0]), der(9));
  await nextSecond();
  await open().create("a/3", der(3));
  assert.deepEqual([...(await written("0issued/a/")).keys()].toSorted(), [
    "0issued/a/0",
    "0issued/a/2",
    "0issued/a/3",
  ]);
  const listed = [...(await space.list("now")).keys()];
  assert.deepEqual(
    listed.filter((key) => key.startsWith("0issued/")),
    [],
  );
}

/** The rows on records in Secrets, each with the rights of the component. */
export const storeRows: readonly Row<Scene>[] = [
  [
    "records in Secrets: every promise of the store, with the rights of its component",
    keepsPromises,
  ],
  ["records in Secrets: issued certificates beside them", keepsIssuedCertificates],
];
