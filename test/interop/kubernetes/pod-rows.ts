import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { createPodWatch, podsTrustedSeconds } from "../../../src/kubernetes/pod-watch.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import { until } from "../../testkit/time/until.ts";
import type { Row } from "../outcome-table.ts";
import { createPod, type Scene } from "./cluster/scene.ts";

/** Finds no pod, so that every answer comes from the watch. */
async function watchesPods({ plane, access }: Scene): Promise<void> {
  const ending = new AbortController();
  const faults: string[] = [];
  const { server, ca } = plane;
  const cluster = {
    cluster: "prod-1",
    client: KubernetesClient.create({ server, credential: () => access }, NodeFetch.trusting(ca)),
    failed: (_: string, { message }: Error) => void faults.push(message),
  };
  const nothing = { find: async () => undefined, isOn: async () => false };
  const clock = (): Date => new Date();
  const pods = createPodWatch(clock, ending.signal)(cluster, nothing);
  const isOn = (node: string, name: string) =>
    pods.isOn(node, { namespace: "shop", name }, clock());
  try {
    await until("the first pods are not known", () => isOn("node-1", "web"));
    assert.equal(await isOn("node-3", "web"), false);
    const passing = await createPod(plane, "shop", "web", "node-3");
    await until("a new pod is not known", () => isOn("node-3", "web"));
    assert.equal((await pods.find("shop", passing, clock()))?.uid, passing.uid);
    const path = `/api/v1/namespaces/shop/pods/${passing.name}`;
    const { metadata } = await plane.call("GET", path);
    const status = { phase: "Succeeded" };
    await plane.call("PUT", `${path}/status`, {
      ...(await plane.call("GET", path)),
      metadata,
      status,
    });
    await until("a pod that has ended is known", async () => !(await isOn("node-3", "web")));
    await plane.call("DELETE", `${path}?gracePeriodSeconds=0`);
    await createPod(plane, "shop", "web", "node-3");
    await until("a pod of the same name is not known", () => isOn("node-3", "web"));
    assert.equal(await pods.find("shop", passing, clock()), undefined);
    await plane.call("DELETE", `${path}?gracePeriodSeconds=0`);
    await until("a deleted pod is known", async () => !(await isOn("node-3", "web")));
    for (let second = 0; second < podsTrustedSeconds + 3; second++) {
      assert.equal(await isOn("node-1", "web"), true, `forgotten after ${second} quiet seconds`);
      await setTimeout(1000);
    }
    assert.deepEqual(faults, []);
  } finally {
    ending.abort();
  }
}

export const podRows: readonly Row<Scene>[] = [
  [
    "pods by a watch: one that comes, one that ends, one that goes, and quiet for as long as it likes",
    watchesPods,
  ],
];
