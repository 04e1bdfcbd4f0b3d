import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { until } from "../../testkit/time/until.ts";
import { type Outcome, played } from "../outcomes.ts";
import { ztunnelVariable } from "../revocation/ztunnel-scene.ts";
import { makeNetwork, type Network, startZtunnel } from "../revocation/ztunnels.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import { MissingProgram, namedBy } from "../software.ts";

interface Scene {
  readonly ca: ServingCa;
  readonly program: string;
  readonly folder: string;
  readonly network: Network;
  readonly variables: Readonly<Record<string, string>>;
}

const only = ["X25519MLKEM768"];
const signer = { name: "pq", authority_key: "ML-DSA-65", mesh_bundle: true };

/** Two ztunnels whose trust bundle has an ML-DSA root beside the EC root, and two of a build that knows `pqc` under it. */
export async function playZtunnels(parent: string): Promise<Outcome[]> {
  const mixed = { client: "ztunnel", server: "rampart serve, both roots in its bundle" };
  const pqc = { client: "ztunnel with tls-aws-lc, pqc", server: "rampart serve under pqc" };
  return [
    await playNamed(ztunnelVariable, mixed, { folder: join(parent, "mixed"), variables: {} }),
    await playNamed("RAMPART_ZTUNNEL_AWS_LC", pqc, {
      folder: join(parent, "pqc"),
      variables: { COMPLIANCE_POLICY: "pqc" },
    }),
  ];
}

async function playNamed(
  variable: string,
  names: Pick<Outcome, "client" | "server">,
  parts: Pick<Scene, "folder" | "variables">,
): Promise<Outcome> {
  const ztunnel = namedBy(variable);
  if ("notPlayed" in ztunnel) return { ...names, passed: 0, faults: [], ...ztunnel };
  return play(names, { ...parts, ...ztunnel });
}

const play = (
  names: Pick<Outcome, "client" | "server">,
  parts: Pick<Scene, "program" | "folder" | "variables">,
): Promise<Outcome> =>
  played(names, async () => {
    const { folder, variables } = parts;
    await using ends = new AsyncDisposableStack();
    const network = await makeNetwork(["a", "b"]).catch((error) => {
      throw new MissingProgram(String(error));
    });
    ends.defer(() => network.end());
    await mkdir(folder);
    const options = { host: "0.0.0.0", variables, signers: [signer] };
    const ca = await startServingCa(join(folder, "ca"), options);
    ends.defer(async () => void (await ca.end()));
    await callAcross({ ...parts, ca, network });
    return { passed: 3, faults: [] };
  });

async function callAcross({ ca, ...parts }: Scene): Promise<void> {
  const roots = (await ca.bundle()).match(/-----BEGIN/g) ?? [];
  if (roots.length !== 2) throw new Error(`a bundle of ${roots.length} roots`);
  const pods = await Promise.all(["a", "b"].map((name) => startZtunnel({ ...parts, ca }, name)));
  const [a, b] = pods;
  if (!a || !b) throw new Error("a ztunnel is missing");
  await until("an answer from one ztunnel to the other", async () => (await a.call(b.ip)) === 200);
  const metrics = await (await fetch(`${ca.published}/metrics`)).text();
  const groups = metrics.match(/(?<=^rampart_tls_handshakes_total\{group=")[^"]*/gm) ?? [];
  console.log(`${parts.program}: handshakes with the CA of ${groups}`);
  const isPqc = "COMPLIANCE_POLICY" in parts.variables;
  if (isPqc !== (groups.join() === only.join())) throw new Error(`handshakes of ${groups}`);
  await Promise.all(pods.map((pod) => pod.end()));
}
