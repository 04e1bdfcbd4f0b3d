import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ServedCa } from "../../../testkit/ca/served-ca.ts";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { startChild } from "../../../testkit/programs/child-process.ts";
import { until } from "../../../testkit/time/until.ts";
import { ask } from "../../native-grpc/clients/clients.ts";
import type { Row } from "../../outcome-table.ts";
import { fromGoModule, required } from "../../software.ts";
import { createAccount, mint, rule } from "../cluster/accounts.ts";
import type { ControlPlane } from "../cluster/control-plane.ts";
import { writeKubeconfig } from "../cluster/kubeconfig.ts";
import type { Scene } from "../cluster/scene.ts";
import { issuedTo, istioCsr, servedNameOfIstioCsr, withCertManager } from "./cert-manager-rows.ts";
import { startCertManager } from "./certificate-rows.ts";

/** The rights of its own chart. */
const rights = [
  rule("", ["configmaps"], ["get", "list", "create", "update", "watch"]),
  rule("", ["namespaces"], ["get", "list", "watch"]),
  rule("", ["events"], ["create"]),
  rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
  rule("coordination.k8s.io", ["leases"], ["get", "create", "update", "watch", "list"]),
  rule(
    "cert-manager.io",
    ["certificaterequests"],
    ["get", "list", "create", "update", "delete", "watch"],
  ),
];

const kubeconfigIn = (folder: string): string => join(folder, "kubeconfig-of-istio-csr");

/** What a row plays with: the cluster, istio-csr, and Istio's client. */
interface Played {
  readonly plane: ControlPlane;
  readonly folder: string;
  readonly program: string;
  readonly client: string;
}

/** Runs istio-csr with an issuer, with the options of its chart. Its own certificate is a short one. */
async function withIstioCsr(
  { folder, program }: Played,
  issuer: readonly [kind: string, name: string],
  play: (address: string) => Promise<void>,
): Promise<void> {
  const [port] = await freePorts(1);
  const address = `127.0.0.1:${port}`;
  const [kind, name] = issuer;
  const child = startChild(program, [
    `--kubeconfig=${kubeconfigIn(folder)}`,
    ...["--issuer-group=rampart.dev", `--issuer-kind=${kind}`, `--issuer-name=${name}`],
    ...["--cluster-id=prod-1", `--serving-address=${address}`],
    ...["--serving-certificate-duration=30s", "--metrics-port=0", "--readiness-probe-port=0"],
  ]);
  try {
    await play(address);
  } catch (error) {
    console.error(child.lines.slice(-20).join("\n"));
    throw error;
  } finally {
    await child.end();
  }
}

const rootsPath = "/api/v1/namespaces/shop/configmaps/istio-ca-root-cert";

/** Has Istio's own client ask istio-csr with a key of its own, as pilot-agent of an account does. */
async function requestAs({ plane, folder, client }: Played, address: string, account: string) {
  const [namespace = "", name = ""] = account.split("/");
  const spiffeId = `spiffe://cluster.local/ns/${namespace}/sa/${name}`;
  const { csr } = await ask<{ csr: string }>(client, "request", { spiffeId });
  const file = (suffix: string): string => join(folder, `istio-csr-${name}-${suffix}`);
  const { data } = await plane.call("GET", rootsPath);
  await writeFile(file("roots.pem"), (data as Record<string, string>)["root-cert.pem"] ?? "");
  await writeFile(file("token"), await mint(plane, namespace, name, { audiences: ["istio-ca"] }));
  return ask<{ certChain?: string[]; error?: string }>(client, "call", {
    address,
    serverName: servedNameOfIstioCsr,
    rootsFile: file("roots.pem"),
    tokenFile: file("token"),
    clusterID: "prod-1",
    csr,
    validitySeconds: 3600,
  });
}

const web = "spiffe://cluster.local/ns/shop/sa/web";

async function certifies({ plane, folder, program, client }: Played, ca: ServedCa): Promise<void> {
  const played = { plane, folder, program, client };
  await withIstioCsr(played, ["RampartClusterIssuer", "mesh"], async (address) => {
    await until("istio-csr has delivered no roots", async () => {
      const { data } = await plane.call("GET", rootsPath).catch(() => ({ data: {} }));
      return (data as Record<string, string>)["root-cert.pem"] === (await ca.bundle());
    });
    const serials = new Set<string>();
    for (const _ of ["first", "renewed"]) {
      const { certChain = [], error } = await requestAs(played, address, "shop/web");
      assert.equal(error, undefined);
      assert.equal(certChain.at(-1), await ca.bundle());
      const leaf = new X509Certificate(certChain[0] ?? "");
      assert.equal(leaf.subjectAltName, `URI:${web}`);
      serials.add(leaf.serialNumber);
    }
    assert.equal(serials.size, 2, "a renewal gets a certificate of its own");
    assert.equal(issuedTo(ca, web), 2);
    const { error = "" } = await requestAs(played, address, "pay/api");
    assert.match(error, /failed to sign/);
    assert.equal(issuedTo(ca, "spiffe://cluster.local/ns/pay/sa/api"), 0);
    await until("it renews no certificate of its own", async () => {
      return issuedTo(ca, servedNameOfIstioCsr) > 1;
    });
  });
}

async function plays(scene: Scene, program: string): Promise<void> {
  const { plane, folder } = scene;
  const source = join(import.meta.dirname, "../../istio-client");
  const client = await required(fromGoModule(source, "istio-client"));
  const played = { plane, folder, program, client };
  await withCertManager(scene, async ({ ca }) => {
    await plane.call("POST", "/api/v1/namespaces/pay/serviceaccounts", {
      metadata: { name: "api" },
    });
    const certManager = await startCertManager(scene);
    const [namespace = "", name = ""] = istioCsr.split("/");
    const token = await createAccount(plane, name, rights, namespace);
    await writeKubeconfig(plane, kubeconfigIn(folder), token);
    try {
      await certifies(played, ca);
    } finally {
      await certManager.end();
      // Other rows begin without roots.
      await certManager.type(
        "kubectl delete configmaps -A --field-selector=metadata.name=istio-ca-root-cert",
      );
    }
  });
}

/** istio-csr itself in front of cert-manager's webhook and approver, asked by Istio's own client. */
export const istioCsrRows = (program: string): readonly Row<Scene>[] => [
  [
    "istio-csr itself: a workload's certificate, its renewal, another's namespace",
    (scene) => plays(scene, program),
  ],
];
