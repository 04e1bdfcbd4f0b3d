import assert from "node:assert/strict";
import { join } from "node:path";
import { parse as parseToml } from "smol-toml";
import { goodAnswerSeconds } from "../../../src/authn/token-review.ts";
import { readKubeconfig } from "../../../src/cli/session/kubeconfig.ts";
import {
  enrol,
  formatEnrolment,
  parseIssuerDocuments,
} from "../../../src/cli/verbs/cluster/cluster-enrol.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { podsKnownSeconds } from "../../../src/kubernetes/pods.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { until } from "../../testkit/time/until.ts";
import type { Row } from "../outcome-table.ts";
import { mint } from "./cluster/accounts.ts";
import type { ControlPlane } from "./cluster/control-plane.ts";
import { writeKubeconfig } from "./cluster/kubeconfig.ts";
import { createPod, type Pod, type Scene } from "./cluster/scene.ts";

const credential = "CLUSTER_CREDENTIAL_PROD_1";

/** Starts a CA with the table that `rampart cluster enrol` prints for the kubeconfig of this cluster. */
async function enrolledCa(
  { plane, folder, access }: Scene,
  review?: "instead-of-keys",
): Promise<RunningCa> {
  const path = join(folder, "kubeconfig");
  await writeKubeconfig(plane, path);
  const { read, server, ca } = await readKubeconfig(path, undefined, process.env);
  const shown = parseIssuerDocuments(
    await read("/.well-known/openid-configuration"),
    await read("/openid/v1/jwks"),
  );
  const settings = {
    platform: "serve" as const,
    cluster: "prod-1",
    audiences: ["istio-ca"],
    kubernetes: review && { server, ca, review },
  };
  const nowhere = async (): Promise<never> => {
    throw new Error("the issuer is a name of the inside: nobody asks");
  };
  const enrolment = await enrol(shown, settings, { anywhere: nowhere, public: nowhere });
  const { ISSUERS } = parseToml(formatEnrolment(enrolment, "serve")) as { ISSUERS: object[] };
  const running = await startCa(
    {
      ISSUERS: ISSUERS.map((table) => ({
        ...table,
        trusted_node_accounts: ["istio-system/ztunnel"],
        ...(!review && { node_reach: "anywhere" }),
      })),
      INCEPTION_DATE: new Date().toISOString().slice(0, 10),
      CRL: "on",
      [credential]: access,
    },
    { hasNoNamesake: true },
  );
  running.pass((Date.now() - running.now().getTime()) / 1000);
  await running.found();
  return running;
}

/** A token that the API server binds to the pod. */
const tokenOf = (
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

const web = "spiffe://cluster.local/ns/shop/sa/web";

/** The rows on tokens of pods, and on node proxies that ask for pods. */
export const tokenRows: readonly Row<Scene>[] = [
  [
    "tokens by inline keys: a pod's, not another audience's; a node proxy's word, if bound to a pod",
    async (scene) => {
      const { plane } = scene;
      const ca = await enrolledCa(scene);
      const caller = await callerOf(ca, await tokenOf(plane, scene.web));
      assert.equal(caller.spiffeId, web);
      assert.deepEqual(caller.pod, { name: scene.web.name, uid: scene.web.uid });
      assert.equal(caller.node?.name, "node-1");
      await refused(callerOf(ca, await tokenOf(plane, scene.web, "vault")), "audience");
      assert.equal(await impersonate(ca, await tokenOf(plane, scene.ztunnel), "shop/web"), web);
      const unbound = await mint(plane, "istio-system", "ztunnel", { audiences: ["istio-ca"] });
      await refused(impersonate(ca, unbound, "shop/web"), "pod");
    },
  ],
  [
    "TokenReview: a pod's token, not another audience's, not a deleted pod's; who is on a node proxy's node",
    async (scene) => {
      const { plane } = scene;
      const ca = await enrolledCa(scene, "instead-of-keys");
      const doomed = await createPod(plane, "shop", "web", "node-2");
      const token = await tokenOf(plane, doomed);
      const caller = await callerOf(ca, token);
      assert.equal(caller.spiffeId, web);
      assert.deepEqual([caller.pod?.uid, caller.node?.name], [doomed.uid, "node-2"]);
      await refused(callerOf(ca, await tokenOf(plane, scene.web, "vault")), "audience");
      const path = `/api/v1/namespaces/shop/pods/${doomed.name}`;
      await plane.call("DELETE", path, { gracePeriodSeconds: 0 });
      // The API server caches its answers for ten seconds.
      await until("a deleted pod's token still passes", async () => {
        ca.pass(goodAnswerSeconds);
        const outcome = await callerOf(ca, token).catch((error: unknown) => error);
        return outcome instanceof CaError && outcome.refusal.reason === "credential-rejected";
      });
      const proxys = await tokenOf(plane, scene.ztunnel);
      assert.equal(await impersonate(ca, proxys, "shop/web"), web);
      await refused(impersonate(ca, proxys, "shop/far"), "instance");
      await refused(impersonate(ca, proxys, "shop/nobody"), "instance");
      await refused(impersonate(ca, await tokenOf(plane, scene.web), "shop/web"), "account");
      ca.pass(podsKnownSeconds);
      assert.equal(await impersonate(ca, proxys, "shop/web"), web);
    },
  ],
];
