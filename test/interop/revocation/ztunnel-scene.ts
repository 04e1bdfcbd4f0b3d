import { join } from "node:path";
import { until } from "../../testkit/time/until.ts";
import { counted, SteadyLoad } from "../agent/processes/steady-load.ts";
import type { Outcome } from "../outcome-table.ts";
import { secondsUntil, startAgent } from "./workloads.ts";
import { playZtunnel, startZtunnel, type ZtunnelMesh } from "./ztunnels.ts";

/** The variable of a ztunnel that is built with `tls-ring`, as Istio's own is. */
export const ztunnelVariable = "RAMPART_ZTUNNEL";

/** Istio's and Cilium's ztunnel, each by the variable that names one. */
const ztunnels = [
  [ztunnelVariable, "ztunnel, three times"],
  ["RAMPART_CILIUM_ZTUNNEL", "Cilium's ztunnel, three times"],
] as const;

const longestSeconds = 10;

/** Three ztunnels of each kind, of which `a` and `c` call `b`. The certificate of `a` is revoked. */
export async function playZtunnels(parent: string): Promise<Outcome[]> {
  const server = "rampart serve, CRL file of rampart agent";
  const what = "a certificate is revoked under load";
  const outcomes: Outcome[] = [];
  for (const [variable, client] of ztunnels) {
    const mesh = { folder: join(parent, variable.toLowerCase()), pods: ["a", "b", "c"] };
    outcomes.push(await playZtunnel(variable, { client, server, what }, mesh, playIn));
  }
  return outcomes;
}

async function playIn({ variables: _, ...mesh }: ZtunnelMesh): Promise<string> {
  const { ca } = mesh;
  const { agent, certificates } = await startAgent(mesh, "file");
  const options = { ...mesh, crlFile: join(certificates, "ca-crl.pem") };
  const [a, b, c] = await Promise.all([
    startZtunnel(options, "a"),
    startZtunnel(options, "b"),
    startZtunnel(options, "c"),
  ]);
  await until("first answers", async () => {
    return (await a.call(b.ip)) === 200 && (await c.call(b.ip)) === 200;
  });
  const load = new SteadyLoad([
    { name: "the other client", call: async () => String(await c.call(b.ip)) },
  ]);
  const revoked = await a.serialNumber();
  await ca.revokeSerials([revoked]);
  const isAnswered = async (): Promise<boolean> => (await a.call(b.ip)) === 200;
  const refused = await secondsUntil("a is refused", longestSeconds, async () => {
    return !(await isAnswered());
  });
  const renewed = await secondsUntil("a has another certificate", 90, isAnswered);
  if ((await a.serialNumber()) === revoked) throw new Error("the revoked certificate is accepted");
  await load.stop();
  await Promise.all([a.end(), b.end(), c.end(), agent.end()]);
  return `refused after ${refused} s; ${renewed} s later it had renewed as usual; others: ${counted(load)}`;
}
