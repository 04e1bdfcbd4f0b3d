import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Child, run, runWell } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { prebuiltPilotAgent } from "../agent/xds/pilot-agent.ts";
import { envoyOf } from "../envoy.ts";
import { type Outcome, shown } from "../outcome-table.ts";
import { prebuilt } from "../prebuilt.ts";
import { startServer } from "../revocation/pilot-agent-scene.ts";
import { callWith, startAgent, stealFrom } from "../revocation/workloads.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import { required, type Software } from "../software.ts";

const COMPLIANCE_POLICY = "pqc";
/** The refused client is counted too. */
const groupsOnly = 'group="X25519MLKEM768" group="none"';

const rootsOf = async ({ bundle }: ServingCa): Promise<string[]> =>
  (await bundle()).match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [];

const names = {
  client: "pilot-agent of 2026-08-27, rampart agent, Go 1.27, OpenSSL 3.0, pqc",
  server: "rampart serve under COMPLIANCE_POLICY=pqc",
  what: "a rotation, and a classical client that is refused",
};

/** A mesh in which every program follows Istio's policy `pqc`, through a rotation. @param python With an Envoy in it. */
export const playPolicy = (
  python: Promise<Software>,
  parent: string,
  go: Promise<Software>,
): Promise<Outcome> =>
  shown(names, async () => {
    const envoy = await envoyOf(await required(python));
    const pilotAgent = await required(prebuilt(prebuiltPilotAgent));
    const folder = join(parent, "policy");
    await mkdir(folder);
    await play({ envoy, pilotAgent, folder, go: await required(go) });
  });

interface Programs {
  readonly envoy: string;
  readonly pilotAgent: string;
  readonly go: string;
  readonly folder: string;
}

async function play({ go, folder, ...programs }: Programs): Promise<void> {
  const children: Child[] = [];
  const ca = await startServingCa(join(folder, "ca"), { variables: { COMPLIANCE_POLICY } });
  const client = await startAgent({ folder, ca }, "client", { COMPLIANCE_POLICY });
  const clients = [client];
  try {
    const parts = { ...programs, folder, ca, children };
    const port = await startServer(parts, client.certificates, {
      COMPLIANCE_POLICY,
      SECRET_TTL: "40s",
    });
    const loot = await stealFrom(client);
    await until(
      "Envoy under pilot-agent answers",
      async () => (await callWith(loot, port)) === "200",
      60,
    );
    const first = await rootsOf(ca);
    await ca.taint("with-last-leaf");
    await until("a second root", async () => (await rootsOf(ca)).length > first.length, 30);
    const [next] = (await rootsOf(ca)).filter((root) => !first.includes(root));
    const joined = await startAgent({ folder, ca }, "joined", { COMPLIANCE_POLICY });
    clients.push(joined);
    const fresh = { ...(await stealFrom(joined)), ca: Buffer.from(next ?? "") };
    // A client that trusts the second root alone: Envoy has renewed, and trusts a leaf under it.
    await until(
      "Envoy has a certificate of the next authority",
      async () => (await callWith(fresh, port)) === "200",
      90,
    );
    const shaken = await runWell(go, ["shake", ca.rootFile, ca.address]);
    if (shaken.trim() !== "X25519MLKEM768") throw new Error(`Go agreed on ${shaken}`);
    const classical = await run("openssl", ["s_client", "-connect", ca.address, "-brief"]);
    if (classical.exitCode === 0) throw new Error("a classical client was served");
    const metrics = await (await fetch(`${ca.published}/metrics`)).text();
    const groups = metrics.match(/(?<=^rampart_tls_handshakes_total\{)[^}]*/gm) ?? [];
    if (groups.join(" ") !== groupsOnly) throw new Error(`handshakes of ${groups}`);
  } finally {
    await Promise.all([
      ...clients.map(({ agent }) => agent.end()),
      ...children.map((child) => child.end()),
    ]);
    await ca.end();
  }
}
