import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Child, run, runWell } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { prebuiltPilotAgent } from "../agent/xds/pilot-agent.ts";
import { envoyOf } from "../envoy.ts";
import type { Outcome } from "../outcomes.ts";
import { prebuilt } from "../prebuilt.ts";
import { startServer } from "../revocation/pilot-agent-scene.ts";
import { callWith, startAgent, stealFrom } from "../revocation/workloads.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import type { Software } from "../software.ts";

const COMPLIANCE_POLICY = "pqc";
/** The refused client is counted too. */
const groupsOnly = 'group="X25519MLKEM768" group="none"';

const rootsOf = async ({ bundle }: ServingCa): Promise<string[]> =>
  (await bundle()).match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [];

/** A mesh in which every program follows Istio's policy `pqc`, through a rotation. @param python With an Envoy in it. */
export async function playPolicy(python: Software, parent: string, go: Software): Promise<Outcome> {
  const names = { client: "pilot-agent of 2026-08-27, rampart agent, Go 1.27, OpenSSL 3.0, pqc" };
  const outcome = { ...names, server: "rampart serve under COMPLIANCE_POLICY=pqc", faults: [] };
  const pilotAgent = await prebuilt(prebuiltPilotAgent);
  if ("missing" in python) return { ...outcome, passed: 0, missing: python.missing };
  if ("missing" in go) return { ...outcome, passed: 0, missing: go.missing };
  if ("missing" in pilotAgent) return { ...outcome, passed: 0, missing: pilotAgent.missing };
  const folder = join(parent, "policy");
  await mkdir(folder);
  const envoy = await envoyOf(python.program);
  const children: Child[] = [];
  const ca = await startServingCa(join(folder, "ca"), { variables: { COMPLIANCE_POLICY } });
  const client = await startAgent({ folder, ca }, "client", { COMPLIANCE_POLICY });
  const clients = [client];
  try {
    const parts = { envoy, pilotAgent: pilotAgent.program, folder, ca, children };
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
    const shaken = await runWell(go.program, ["shake", ca.rootFile, ca.address]);
    if (shaken.trim() !== "X25519MLKEM768") throw new Error(`Go agreed on ${shaken}`);
    const classical = await run("openssl", ["s_client", "-connect", ca.address, "-brief"]);
    if (classical.exitCode === 0) throw new Error("a classical client was served");
    const metrics = await (await fetch(`${ca.published}/metrics`)).text();
    const groups = metrics.match(/(?<=^rampart_tls_handshakes_total\{)[^}]*/gm) ?? [];
    if (groups.join(" ") !== groupsOnly) throw new Error(`handshakes of ${groups}`);
    return { ...outcome, passed: 5 };
  } catch (error) {
    return { ...outcome, passed: 0, faults: [String(error)] };
  } finally {
    await Promise.all([
      ...clients.map(({ agent }) => agent.end()),
      ...children.map((child) => child.end()),
    ]);
    await ca.end();
  }
}
