import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { repeatedly } from "../../../testkit/time/until.ts";
import type { Server } from "../../native-grpc/clients/client.ts";
import { type Mesh, startMesh } from "../../native-grpc/mesh.ts";
import { type Servers, startServers } from "../../native-grpc/servers/servers.ts";
import type { Outcome } from "../outcome-table.ts";
import { playControlPlane } from "./control-plane-scenes.ts";
import { compareBootstraps } from "./istio-bootstrap.ts";
import { playIstiodMesh } from "./istiod-mesh.ts";

/** What the scenes of the XDS proxy share. */
export interface MeshParts {
  readonly envoy: string;
  readonly folder: string;
  readonly mesh: Mesh;
  readonly servers: Servers;
  readonly leafSeconds: number;
}

/** A life that lasts for a restart of istiod, and ends soon enough to wait for the next authority. */
const leafSeconds = 20;
const leaves = {
  DEFAULT_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
  MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
  AUTHORITY_LIFETIME: `${5 * leafSeconds}s`,
};

/** The XDS proxy between Envoy and a real istiod, and between Envoy and another control plane. */
export async function playXds(envoy: string, folder: string): Promise<Outcome[]> {
  const mesh = await startMesh(folder);
  const servers = await startServers(join(folder, "ca"), mesh, { serve: leaves, worker: leaves });
  const { serve, gateway } = servers;
  const refreshing = repeatedly(() => Promise.all([serve, gateway].map(refreshRoots)), 1_000);
  const parts = { envoy, folder, mesh, servers, leafSeconds };
  const outcomes = [
    await compareBootstraps(folder),
    ...(await playControlPlane({ ...parts, ca: serve })),
    ...(await playIstiodMesh(parts)),
  ];
  await refreshing.end();
  await servers.end();
  await mesh.end();
  return outcomes;
}

/** The file that `rampart distribute` keeps in a cluster. */
async function refreshRoots({ bundle, tls }: Server): Promise<void> {
  const pem = await bundle().catch(() => undefined);
  if (pem && tls) await writeFile(tls.rootsFile, pem);
}
