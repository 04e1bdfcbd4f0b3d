import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { prebuilt, prebuiltIstiod } from "../../test/interop/prebuilt.ts";
import { freePorts } from "../../test/testkit/network/free-ports.ts";
import { istioCall } from "../node/http2-load.ts";
import { connectTo } from "./connections.ts";
import type { MissingPeer, Peer, RootKey } from "./peer.ts";
import { startPeerProcess } from "./peer-process.ts";
import { writeRoot } from "./root-files.ts";
import type { Stage } from "./stage.ts";

const name = "istiod";

/** istiod with a root of each kind. */
export async function startIstiods(stage: Stage): Promise<readonly (Peer | MissingPeer)[]> {
  const found = await prebuilt(prebuiltIstiod);
  if ("missing" in found) return [{ name, why: found.missing }];
  return [
    await startIstiod(found.program, stage, "EC-P256"),
    await startIstiod(found.program, stage, "RSA-2048"),
  ];
}

/** istiod with a plugged-in root, and the same rule for tokens as Rampart's table of the issuer. */
async function startIstiod(program: string, stage: Stage, rootKey: RootKey): Promise<Peer> {
  const folder = join(stage.folder, `istiod-${rootKey}`);
  await mkdir(join(folder, "config"), { recursive: true });
  await writeRoot(join(folder, "authority"), rootKey);
  const [port = 0, http, https, monitoring] = await freePorts(4);
  const meshFile = join(folder, "mesh.yaml");
  await writeFile(meshFile, JSON.stringify({ trustDomain: "cluster.local" }));
  const values = [
    ...["discovery", "--registries=", `--configDir=${join(folder, "config")}`],
    ...[`--meshConfig=${meshFile}`, `--secureGRPCAddr=127.0.0.1:${port}`, "--grpcAddr="],
    ...[`--httpAddr=127.0.0.1:${http}`, `--httpsAddr=127.0.0.1:${https}`],
    ...[`--monitoringAddr=127.0.0.1:${monitoring}`, "--ctrlz_port=0", "--log_target=stderr"],
  ];
  const { cluster, keysUrl, workload } = stage;
  const rule = { issuer: cluster.issuer, jwksUri: keysUrl, audiences: ["istio-ca"] };
  const env = { ROOT_CA_DIR: join(folder, "authority"), JWT_RULE: JSON.stringify(rule) };
  const server = startPeerProcess({ program, values, folder, env });
  const call = istioCall(workload);
  return {
    name,
    version: "2026-08-27 (istio/istio eed52ebb66ad)",
    api: "native gRPC over TLS",
    rootKey,
    less: "no audit line for a certificate, no lint",
    ...(await connectTo(server, port, () => call)),
  };
}
