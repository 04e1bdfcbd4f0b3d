import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runGateway } from "../../../src/node/gateway/gateway.ts";
import { parseGatewayConfiguration } from "../../../src/node/gateway/gateway-configuration.ts";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { until } from "../../testkit/time/until.ts";
import { createAccount, mint, rule } from "./cluster/accounts.ts";
import type { ControlPlane, Json } from "./cluster/control-plane.ts";
import { applyManifest } from "./cluster/manifests.ts";
import type { Scene } from "./cluster/scene.ts";
import type { Row } from "./rows.ts";

const credential = "CLUSTER_CREDENTIAL_PUSH";
const path = (namespace: string): string =>
  `/api/v1/namespaces/${namespace}/configmaps/istio-ca-root-cert`;

const ofRoots = (verbs: string[]): object[] => [
  rule("", ["namespaces"], ["list"]),
  { ...rule("", ["configmaps"], verbs), resourceNames: ["istio-ca-root-cert"] },
];

interface Held {
  readonly metadata: Readonly<Record<string, never>>;
  readonly data: Readonly<Record<string, string>>;
}

const heldIn = async ({ call }: ControlPlane, namespace: string): Promise<Held | undefined> =>
  (await call("GET", path(namespace)).catch(() => undefined)) as Held | undefined;

const has = (plane: ControlPlane, namespace: string, pem: string): Promise<void> =>
  until(
    `${namespace} has no bundle`,
    async () => (await heldIn(plane, namespace))?.data["root-cert.pem"] === pem,
  );

const createNamespace = ({ call }: ControlPlane, name: string): Promise<Json> =>
  call("POST", "/api/v1/namespaces", { metadata: { name } });

const tableOf = ({ server, issuer }: ControlPlane, changes: object): object => ({
  issuer,
  cluster: "prod-1",
  kubernetes: { server, credential, review: "instead-of-keys", deliver_roots: true, ...changes },
});

/** Runs `serve` with this credential and a rotation every ten seconds. */
async function serving(
  { plane }: Scene,
  token: string,
  work: (served: ServedCa) => Promise<void>,
): Promise<void> {
  const served = await serveCa({
    MAX_WORKLOAD_CERT_TTL: "80s",
    ISSUERS: [tableOf(plane, { ca: plane.ca })],
    [credential]: token,
  });
  try {
    await work(served);
  } finally {
    await served.end();
  }
}

async function servePushes(scene: Scene): Promise<void> {
  const { plane } = scene;
  const token = await createAccount(plane, "push", ofRoots(["list", "create", "patch"]));
  await createNamespace(plane, "pushed");
  await serving(scene, token, async (served) => {
    const pem = await served.bundle();
    for (const namespace of ["default", "kube-system", "shop", "pushed"]) {
      await has(plane, namespace, pem);
    }
    const held = JSON.stringify(await heldIn(plane, "pushed"));
    assert.match(held, /"manager":"rampart-ca"/);
    assert.match(held, /"rampart.dev\/spiffe-sequence":"\d+"/);
    assert.match(held, /"istio.io\/config":"true"/);
    await createNamespace(plane, "pushed-later");
    await has(plane, "pushed-later", pem);
    await plane.call("DELETE", path("pushed"));
    const { metadata } = await plane.call("GET", path("shop"));
    await plane.call("PUT", path("shop"), { metadata, data: { "root-cert.pem": "mine" } });
    await has(plane, "pushed", pem);
    await has(plane, "shop", pem);
    assert.equal(await heldIn(plane, "kube-public"), undefined);
    const outcomes = served.log.operations.filter(({ event }) => event.startsWith("roots-"));
    assert(outcomes.length > 0);
    assert(
      outcomes.every(({ event }) => event === "roots-delivered" || event === "roots-not-delivered"),
    );
  });
}

async function serveIsRefused(scene: Scene): Promise<void> {
  const { plane } = scene;
  const reader = await createAccount(plane, "push-reader", ofRoots(["list"]));
  const nobody = await createAccount(plane, "push-nobody", []);
  const before = await heldIn(plane, "shop");
  for (const token of [reader, nobody, "no-token"]) {
    await serving(scene, token, async ({ log, bundle }) => {
      const isSaid = async (): Promise<boolean> =>
        log.operations.some(
          ({ event, detail = "" }) =>
            event === "roots-not-delivered" && /status 40[13]/.test(detail),
        );
      await until("a refusal was not said", isSaid);
      assert.match(await bundle(), /BEGIN CERTIFICATE/);
    });
  }
  assert.deepEqual(await heldIn(plane, "shop"), before);
}

async function gatewayKeeps(scene: Scene): Promise<void> {
  const { plane, folder } = scene;
  const name = "rampart-gateway";
  await plane.call("POST", "/api/v1/namespaces/istio-system/serviceaccounts", {
    metadata: { name },
  });
  await applyManifest(plane, "components/gateway-roots/gateway-roots.yaml");
  const tokenFile = join(folder, "gateway-token");
  await writeFile(tokenFile, await mint(plane, "istio-system", name, { audiences: [] }));
  await writeFile(join(folder, "ca.crt"), plane.ca);
  await serving(scene, "no-token", async (served) => {
    const configuration = parseGatewayConfiguration({
      UPSTREAM: `http://127.0.0.1:${served.monitoringPort}`,
      TOKEN_FILE: tokenFile,
      LISTEN: "127.0.0.1:0",
      MONITORING_LISTEN: "127.0.0.1:0",
      DELIVER_ROOTS: true,
      KUBERNETES_SERVER: plane.server,
      KUBERNETES_CA_FILE: join(folder, "ca.crt"),
      KUBERNETES_TOKEN_FILE: tokenFile,
    });
    const log = createEventRecorder();
    const gateway = await runGateway(configuration, { log, clock: () => new Date() });
    // The gateway gets no serving certificate here. The delivery of roots needs none.
    const ending = gateway.address.catch(() => undefined);
    try {
      const pem = await served.bundle();
      await has(plane, "shop", pem);
      await createNamespace(plane, "by-gateway");
      await has(plane, "by-gateway", pem);
    } finally {
      await gateway.close(1000);
      await ending;
    }
  });
}

/** The rows on roots in a cluster, each with the rights that the documents name. */
export const rootRows: readonly Row<Scene>[] = [
  ["roots by push from serve: new namespaces, drift, another's ConfigMaps", servePushes],
  [
    "roots by push without rights to write, to list, or any: said, and nothing written",
    serveIsRefused,
  ],
  [
    "roots kept by a gateway, with the rights of deploy/kustomize/components/gateway-roots/gateway-roots.yaml",
    gatewayKeeps,
  ],
];
