import { generateKeyPairSync } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Fetch } from "../../../../src/foundation/fetch.ts";
import { NodeFetch } from "../../../../src/program/http/http-client.ts";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { type Child, startChild } from "../../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../../testkit/temporary-folder.ts";
import { until } from "../../../testkit/time/until.ts";
import type { ControlPlanePrograms } from "./programs.ts";

/** An object of the API, its members unread. */
export type Json = Readonly<Record<string, unknown>>;

export type Call = (method: string, path: string, body?: unknown) => Promise<Json>;

/** A kube-apiserver with its etcd, on ports of the loopback interface, without kubelets or controllers. */
export type ControlPlane = Awaited<ReturnType<typeof startControlPlane>>;

/** As an API server names itself, unless somebody says otherwise. */
const issuer = "https://kubernetes.default.svc";
const adminToken = "token-of-the-administrator";

/** The nodes that have tokens, as kubelets have certificates. */
const nodes = ["node-1", "node-2"];

export const nodeToken = (node: string): string => `token-of-${node}`;

const tokens = [
  `${adminToken},admin,1,system:masters`,
  ...nodes.map((node) => `${nodeToken(node)},system:node:${node},${node},system:nodes`),
];

/** Kubernetes 1.36 has them off; 1.37 is started as users start it. */
const betaWords = [
  "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true",
  "--runtime-config=certificates.k8s.io/v1beta1=true",
];

/** @param words More options of the API server. */
export async function startControlPlane(
  programs: ControlPlanePrograms,
  words: readonly string[] = [],
) {
  const folder = await lastingFolder();
  const [etcdPort, peerPort, port] = await freePorts(3);
  const etcdUrl = `http://127.0.0.1:${etcdPort}`;
  const peerUrl = `http://127.0.0.1:${peerPort}`;
  const keyFile = join(folder, "accounts.pem");
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  await writeFile(keyFile, privateKey.export({ type: "pkcs8", format: "pem" }));
  await writeFile(join(folder, "tokens.csv"), `${tokens.join("\n")}\n`);
  const children: Child[] = [];
  const start = (program: string, words: readonly string[]) =>
    children.push(startChild(program, words));
  const stop = async (): Promise<void> => {
    for (const child of children.toReversed()) await end(child);
  };
  start(programs.etcd, [
    `--data-dir=${join(folder, "etcd")}`,
    `--listen-client-urls=${etcdUrl}`,
    `--advertise-client-urls=${etcdUrl}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=default=${peerUrl}`,
    "--log-level=error",
  ]);
  const apiServerWords = [
    `--etcd-servers=${etcdUrl}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${port}`,
    `--cert-dir=${join(folder, "certificates")}`,
    `--token-auth-file=${join(folder, "tokens.csv")}`,
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--service-cluster-ip-range=10.0.0.0/24",
    `--service-account-issuer=${issuer}`,
    `--service-account-key-file=${keyFile}`,
    `--service-account-signing-key-file=${keyFile}`,
    "--disable-admission-plugins=ServiceAccount",
    ...(programs.isBeta ? betaWords : []),
    ...words,
  ];
  start(programs.apiServer, apiServerWords);
  try {
    const ca = await readWhenThere(join(folder, "certificates/apiserver.crt"), children);
    const server = `https://127.0.0.1:${port}`;
    const fetch = NodeFetch.trusting(ca);
    await untilReady(fetch, server, children);
    const callAs = (token: string): Call => createCall(fetch, server, token);
    const restart = async (): Promise<void> => {
      const former = children.pop();
      if (former) await end(former);
      start(programs.apiServer, apiServerWords);
      await untilReady(fetch, server, children);
    };
    const certificates = `/apis/certificates.k8s.io/${programs.isBeta ? "v1beta1" : "v1"}`;
    return {
      server,
      ca,
      issuer,
      adminToken,
      /** The path of the version of `certificates.k8s.io` that has what pod certificates take. */
      certificates,
      /** Sends JSON as the cluster's administrator. Rejects on every status but success. */
      call: callAs(adminToken),
      callAs,
      /** Ends the API server as an update of the control plane does, and starts it again on the same etcd. */
      restart,
      stop,
    };
  } catch (error) {
    console.error(children.flatMap(({ lines }) => lines.slice(-20)).join("\n"));
    await stop();
    throw error;
  }
}

/** An API server that still has watchers would take longer than anybody waits. */
async function end(child: Child): Promise<void> {
  const timer = setTimeout(() => child.send("SIGKILL"), 15_000);
  await child.end();
  clearTimeout(timer);
}

function createCall(fetch: Fetch, server: string, token: string): Call {
  return async (method, path, body) => {
    const response = await fetch(`${server}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": contentType(method) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (response.ok) return JSON.parse(text) as Json;
    throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
  };
}

/** A PATCH is a server-side apply, whose YAML may be JSON. */
const contentType = (method: string): string =>
  method === "PATCH" ? "application/apply-patch+yaml" : "application/json";

const startSeconds = 120;

async function readWhenThere(file: string, children: readonly Child[]): Promise<string> {
  let text = "";
  await until(
    file,
    async () => {
      requireAlive(children);
      text = await readFile(file, "utf8").catch(() => "");
      return text.includes("END CERTIFICATE");
    },
    startSeconds,
  );
  return text;
}

function untilReady(fetch: Fetch, server: string, children: readonly Child[]): Promise<void> {
  const headers = { authorization: `Bearer ${adminToken}` };
  return until(
    "the API server",
    async () => {
      requireAlive(children);
      const response = await fetch(`${server}/readyz`, { headers }).catch(() => undefined);
      await response?.body?.cancel();
      return response?.status === 200;
    },
    startSeconds,
  );
}

function requireAlive(children: readonly Child[]): void {
  for (const { process } of children) {
    const end = process.exitCode ?? process.signalCode;
    if (end !== null) throw new Error(`${process.spawnfile} has ended with ${end}`);
  }
}
