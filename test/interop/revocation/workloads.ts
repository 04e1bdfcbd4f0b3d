import { X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { request } from "node:https";
import { join } from "node:path";
import { createBootstrap } from "../../../src/agent/envoy/envoy-bootstrap.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { startChild } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { startWorkload, withOneRequestEach } from "../agent/envoy-pair.ts";
import { AgentProcess } from "../agent/processes/agent-process.ts";
import type { ServingCa } from "../serving-ca.ts";

/** An agent of the workload `mesh/<name>`. */
export type Certified = Awaited<ReturnType<typeof startAgent>>;

/** A workload behind an Envoy. */
export type Workload = Awaited<ReturnType<typeof startSidecar>>;

interface MeshOptions {
  readonly folder: string;
  readonly ca: ServingCa;
}

export async function startAgent(
  { folder: parent, ca }: MeshOptions,
  name: string,
  variables: Readonly<Record<string, string>> = {},
) {
  const folder = join(parent, name);
  await mkdir(folder);
  const [status = 0] = await freePorts(1);
  const certificates = join(folder, "certs");
  const socket = join(folder, "sds");
  const environment = {
    ...variables,
    CA_ADDR: ca.address,
    CA_ROOT_CA: ca.rootFile,
    POD_NAMESPACE: "mesh",
    SERVICE_ACCOUNT: name,
    RAMPART_TOKEN_FILE: await ca.tokenFile(`mesh/${name}`),
    RAMPART_SDS_SOCKET: socket,
    OUTPUT_CERTS: certificates,
  };
  const agent = new AgentProcess(folder, environment, status);
  agent.start();
  await agent.ready();
  await until("the files of a workload", async () =>
    ["key.pem", "cert-chain.pem", "root-cert.pem"].every((file) =>
      existsSync(join(certificates, file)),
    ),
  );
  return {
    agent,
    socket,
    certificates,
  };
}

const anyone = { trustDomain: "cluster.local" };
const local = (port: number) => ({ host: "127.0.0.1", port });

/** @param server The port of the server that a client calls. Without it the workload is the server. */
export async function startSidecar(
  mesh: MeshOptions & { readonly envoy: string },
  name: string,
  baseId: number,
  server?: number,
) {
  const certified = await startAgent(mesh, name);
  const [admin = 0, port = 0] = await freePorts(2);
  const http = await startWorkload();
  const forward = local(http.port);
  const bootstrap = createBootstrap({
    nodeId: name,
    nodeCluster: name,
    sdsSocket: certified.socket,
    admin: local(admin),
    ...(server === undefined
      ? { inbound: [{ listen: local(port), forward, peers: anyone }] }
      : { outbound: [{ listen: local(port), connect: local(server), peers: anyone }] }),
  });
  const yaml = JSON.stringify(withOneRequestEach(bootstrap, "outbound-0"));
  const values = ["--config-yaml", yaml, "--base-id", String(baseId), "--concurrency", "1"];
  const logFile = join(mesh.folder, name, "envoy.log");
  const child = startChild(mesh.envoy, values, { logFile });
  return {
    ...certified,
    adminUrl: `http://127.0.0.1:${admin}`,
    /** Of a client: each request makes a handshake with the server. */
    url: `http://127.0.0.1:${port}/`,
    /** Of a server for mutual TLS. */
    port,
    async end() {
      await Promise.all([child.end(), certified.agent.end()]);
      await http.close();
    },
  };
}

/** Copies of a workload's key and certificate, as a thief has them. */
export interface Loot {
  readonly key: Buffer;
  readonly cert: Buffer;
  readonly ca: Buffer;
}

export async function stealFrom({ certificates }: Certified): Promise<Loot> {
  const [key, cert, ca] = await Promise.all(
    ["key.pem", "cert-chain.pem", "root-cert.pem"].map((file) =>
      readFile(join(certificates, file)),
    ),
  );
  if (!key || !cert || !ca) throw new Error("a file is missing");
  return { key, cert, ca };
}

export const serialOf = (cert: Buffer): string => new X509Certificate(cert).serialNumber;

/** One request in a handshake of its own. @returns The status, or the fault. */
export function callWith(loot: Loot, port: number): Promise<string> {
  return new Promise((resolve) => {
    const options = { ...loot, port, host: "127.0.0.1", agent: false, timeout: 5_000 };
    const call = request(
      // The server has a SPIFFE ID and no host name.
      { ...options, checkServerIdentity: () => undefined },
      (response) => {
        response.resume();
        response.on("end", () => resolve(String(response.statusCode)));
      },
    );
    call.on("timeout", () => call.destroy(new Error("no answer")));
    call.on("error", (error) => resolve(error.message));
    call.end();
  });
}

/** Waits until it is so. @returns How long that took. @throws Error after so many seconds. */
export async function secondsUntil(
  what: string,
  seconds: number,
  isSo: () => Promise<boolean>,
): Promise<string> {
  const begin = performance.now();
  await until(what, isSo, seconds);
  return ((performance.now() - begin) / 1000).toFixed(1);
}
