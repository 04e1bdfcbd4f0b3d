import assert from "node:assert/strict";
import { goodAnswerSeconds } from "../../../src/authn/token-review.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { podsKnownSeconds } from "../../../src/kubernetes/pods.ts";
import type { RunningCa } from "../../testkit/ca/running-ca.ts";
import { until } from "../../testkit/time/until.ts";
import { mint } from "./cluster/accounts.ts";
import type { ControlPlane } from "./cluster/control-plane.ts";
import { createPod, type Pod, type Scene } from "./cluster/scene.ts";
import { enrolledCa } from "./enrolled-ca.ts";
import type { Row } from "./rows.ts";

/** A token that the API server binds to the pod. */
export const tokenOf = (
  plane: ControlPlane,
  { namespace, account, name, uid }: Pod,
  audience = "istio-ca",
) =>
  mint(plane, namespace, account, {
    audiences: [audience],
    boundObjectRef: { kind: "Pod", apiVersion: "v1", name, uid },
  });

function callerOf({ certificateAuthority, now }: RunningCa, token: string) {
  const headers = new Headers({ authorization: `Bearer ${token}`, clusterid: "prod-1" });
  return certificateAuthority.authenticate({ headers }, now());
}

async function impersonate(running: RunningCa, token: string, account: string): Promise<string> {
  const { identityPolicy } = running.certificateAuthority.issuance;
  const requested = `spiffe://cluster.local/ns/${account.replace("/", "/sa/")}`;
  return await identityPolicy(await callerOf(running, token), requested, running.now());
}

async function refused(work: Promise<unknown>, evidence: string): Promise<void> {
  try {
    await work;
  } catch (error) {
    assert(error instanceof CaError, String(error));
    assert.match(JSON.stringify(error.refusal), new RegExp(`"${evidence}"`));
    return;
  }
  assert.fail("nothing was refused");
}

/** The rows on tokens of pods, and on node proxies that ask for pods. */
export const tokenRows: readonly Row<Scene>[] = [
  [
    "tokens by inline keys: a pod's, with pod and node; another audience's not",
    async (scene) => {
      const ca = await enrolledCa(scene);
      const caller = await callerOf(ca, await tokenOf(scene.plane, scene.web));
      assert.equal(caller.spiffeId, "spiffe://cluster.local/ns/shop/sa/web");
      assert.deepEqual(caller.pod, { name: scene.web.name, uid: scene.web.uid });
      assert.equal(caller.node?.name, "node-1");
      await refused(callerOf(ca, await tokenOf(scene.plane, scene.web, "vault")), "audience");
    },
  ],
  [
    "node checks by claims: a bound node proxy's word counts, an unbound one's not",
    async (scene) => {
      const ca = await enrolledCa(scene);
      const spiffeId = await impersonate(ca, await tokenOf(scene.plane, scene.ztunnel), "shop/web");
      assert.equal(spiffeId, "spiffe://cluster.local/ns/shop/sa/web");
      const unbound = await mint(scene.plane, "istio-system", "ztunnel", {
        audiences: ["istio-ca"],
      });
      await refused(impersonate(ca, unbound, "shop/web"), "pod");
    },
  ],
  [
    "TokenReview: a pod's token, with pod and node; another audience's not; a deleted pod's not",
    async (scene) => {
      const ca = await enrolledCa(scene, "instead-of-keys");
      const doomed = await createPod(scene.plane, "shop", "web", "node-2");
      const token = await tokenOf(scene.plane, doomed);
      const caller = await callerOf(ca, token);
      assert.equal(caller.spiffeId, "spiffe://cluster.local/ns/shop/sa/web");
      assert.deepEqual([caller.pod?.uid, caller.node?.name], [doomed.uid, "node-2"]);
      await refused(callerOf(ca, await tokenOf(scene.plane, scene.web, "vault")), "audience");
      const path = `/api/v1/namespaces/shop/pods/${doomed.name}`;
      await scene.plane.call("DELETE", path, { gracePeriodSeconds: 0 });
      ca.pass(goodAnswerSeconds);
      // The API server caches its answers for ten seconds.
      await until("a deleted pod's token still passes", async () => {
        ca.pass(goodAnswerSeconds);
        const outcome = await callerOf(ca, token).catch((error: unknown) => error);
        return outcome instanceof CaError && outcome.refusal.reason === "credential-rejected";
      });
    },
  ],
  [
    "node checks by the API: what is on the proxy's node, not what is on another or nowhere",
    async (scene) => {
      const ca = await enrolledCa(scene, "instead-of-keys");
      const token = await tokenOf(scene.plane, scene.ztunnel);
      const spiffeId = await impersonate(ca, token, "shop/web");
      assert.equal(spiffeId, "spiffe://cluster.local/ns/shop/sa/web");
      await refused(impersonate(ca, token, "shop/far"), "instance");
      await refused(impersonate(ca, token, "shop/nobody"), "instance");
      await refused(impersonate(ca, await tokenOf(scene.plane, scene.web), "shop/web"), "account");
      ca.pass(podsKnownSeconds);
      assert.equal(await impersonate(ca, token, "shop/web"), spiffeId);
    },
  ],
];
