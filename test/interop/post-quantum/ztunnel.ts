import { join } from "node:path";
import { until } from "../../testkit/time/until.ts";
import type { Outcome } from "../outcome-table.ts";
import { ztunnelVariable } from "../revocation/ztunnel-scene.ts";
import { playZtunnel, startZtunnel, type ZtunnelMesh } from "../revocation/ztunnels.ts";

const what = "calls from one to the other";
const mixed = { client: "ztunnel, twice", server: "rampart serve, both roots in its bundle", what };
const pqc = { client: "ztunnel with tls-aws-lc, pqc", server: "rampart serve under pqc", what };

/** Two ztunnels whose trust bundle has an ML-DSA root beside the EC root, and two of a build that knows `pqc` under it. */
export async function playZtunnels(parent: string): Promise<Outcome[]> {
  const signers = [{ name: "pq", authority_key: "ML-DSA-65", mesh_bundle: true }];
  const mesh = { pods: ["a", "b"], signers };
  const variables = { COMPLIANCE_POLICY: "pqc" };
  return [
    await playZtunnel(
      ztunnelVariable,
      mixed,
      { ...mesh, folder: join(parent, "mixed") },
      callAcross,
    ),
    await playZtunnel(
      "RAMPART_ZTUNNEL_AWS_LC",
      pqc,
      { ...mesh, folder: join(parent, "pqc"), variables },
      callAcross,
    ),
  ];
}

async function callAcross(mesh: ZtunnelMesh): Promise<string> {
  const { ca, variables } = mesh;
  const roots = (await ca.bundle()).match(/-----BEGIN/g) ?? [];
  if (roots.length !== 2) throw new Error(`a bundle of ${roots.length} roots`);
  const [a, b] = await Promise.all([startZtunnel(mesh, "a"), startZtunnel(mesh, "b")]);
  await until("an answer from one ztunnel to the other", async () => (await a.call(b.ip)) === 200);
  const metrics = await (await fetch(`${ca.published}/metrics`)).text();
  const groups = metrics.match(/(?<=^rampart_tls_handshakes_total\{group=")[^"]*/gm) ?? [];
  const isOnlyHybrid = groups.join() === "X25519MLKEM768";
  if ("COMPLIANCE_POLICY" in variables !== isOnlyHybrid) throw new Error(`handshakes of ${groups}`);
  await Promise.all([a.end(), b.end()]);
  return `handshakes with the CA of ${groups}`;
}
