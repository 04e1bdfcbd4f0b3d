import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { createBootstrap } from "../../../src/agent/envoy/envoy-bootstrap.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { type Child, run } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { startWorkload } from "../agent/envoy-pair.ts";
import {
  pilotSocketIn,
  prebuiltPilotAgent,
  startPodsPilotAgent,
} from "../agent/xds/pilot-agent.ts";
import { notRun, type Outcome, shown } from "../outcome-table.ts";
import { prebuilt } from "../prebuilt.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import { required } from "../software.ts";
import { callWith, secondsUntil, startAgent, stealFrom } from "./workloads.ts";

const names = {
  client: "Envoy 1.40.0 under pilot-agent of 2026-08-27",
  server: "rampart serve, CRL file as of ConfigMap istio-ca-crl",
  what: "a certificate is revoked",
};

const longestSeconds = 10;

/** Puts a folder where pilot-agent looks for CRLs, for this program and its children alone, and becomes the program. */
const mounted =
  'mount -t tmpfs none /run && mkdir -p /run/secrets/istio/crl && mount --bind "$0" /run/secrets/istio/crl && exec "$@"';

/** A server behind an Envoy that has its secrets of pilot-agent. Of two clients the certificate of one is revoked. */
export async function playPilotAgent(envoy: string, folder: string): Promise<Outcome> {
  const tried = await run("unshare", ["-m", "sh", "-ec", mounted, folder, "true"]);
  if (tried.exitCode !== 0) return notRun(names, tried.stderr.trim());
  const own = join(folder, "pilot-agent");
  await mkdir(own);
  const ca = await startServingCa(join(own, "ca"));
  const children: Child[] = [];
  const outcome = await shown(names, async () => {
    const pilotAgent = await required(prebuilt(prebuiltPilotAgent));
    return playWith({ envoy, pilotAgent, folder: own, ca, children });
  });
  await Promise.all(children.map((child) => child.end()));
  await ca.end();
  return outcome;
}

export interface Parts {
  readonly envoy: string;
  readonly pilotAgent: string;
  readonly folder: string;
  readonly ca: ServingCa;
  readonly children: Child[];
}

async function playWith(parts: Parts): Promise<string> {
  const { folder, ca } = parts;
  const [thief, other] = await Promise.all(
    ["thief", "other"].map((name) => startAgent({ folder, ca }, name)),
  );
  if (!thief || !other) throw new Error("an agent is missing");
  await until(
    "files of both clients, and a CRL",
    async () => {
      const written = ["cert-chain.pem", "ca-crl.pem"].flatMap((name) =>
        [thief, other].map(({ certificates }) => join(certificates, name)),
      );
      return written.every(existsSync);
    },
    30,
  );
  const [loot, honest] = await Promise.all([stealFrom(thief), stealFrom(other)]);
  // The agent's folder has ca-crl.pem, as a pod has that of the ConfigMap.
  const port = await startServer(parts, other.certificates);
  await until("a first answer", async () => (await callWith(loot, port)) === "200");
  await ca.revoke(loot.cert);
  const seconds = await secondsUntil("the thief is refused", longestSeconds, async () => {
    return (await callWith(loot, port)) !== "200";
  });
  const [said, answer] = [await callWith(loot, port), await callWith(honest, port)];
  if (!said.includes("certificate revoked")) throw new Error(`the thief is told ${said}`);
  if (answer !== "200") throw new Error(`the other client is told ${answer}`);
  await Promise.all([thief.agent.end(), other.agent.end()]);
  return `refused after ${seconds} s by the alert "certificate revoked"; the other client is answered`;
}

/**
 * Starts pilot-agent with an Envoy, which has no listener but this one.
 *
 * @param crls The folder with `ca-crl.pem`.
 * @param variables More of its environment.
 * @returns The port for mutual TLS.
 */
export async function startServer(
  { envoy, pilotAgent, folder, ca, children }: Parts,
  crls: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<number> {
  const place = join(folder, "server");
  const [adminPort = 0, port = 0] = await freePorts(2);
  const http = await startWorkload();
  const forward = local(http.port);
  const bootstrap = createBootstrap({
    nodeId: "server",
    nodeCluster: "server",
    sdsSocket: pilotSocketIn(place),
    admin: local(adminPort),
    inbound: [{ listen: local(port), forward, peers: { trustDomain: "cluster.local" } }],
  });
  const { child } = await startPodsPilotAgent(pilotAgent, {
    folder: place,
    account: "foo/server",
    token: await ca.mesh.token({ account: "foo/server" }),
    ca: ca.address,
    rootFile: ca.rootFile,
    variables,
    inside: ["unshare", "-m", "sh", "-ec", mounted, crls],
    envoy: { program: envoy, bootstrap: JSON.stringify(bootstrap), adminPort },
  });
  children.push(child);
  return port;
}

const local = (port: number) => ({ host: "127.0.0.1", port });
