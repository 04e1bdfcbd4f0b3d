import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../../testkit/time/until.ts";
import { notRun, type Outcome, shown } from "../outcome-table.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import { namedBy } from "../software.ts";
import { startAgent } from "./workloads.ts";
import { makeNetwork, type Network, startZtunnel, type Ztunnel } from "./ztunnels.ts";

/** The variable of a ztunnel that is built with `tls-ring`, as Istio's own is. */
export const ztunnelVariable = "RAMPART_ZTUNNEL";

/** Istio's and Cilium's ztunnel, each by the variable that names one. */
const ztunnels = [
  [ztunnelVariable, "ztunnel, three times"],
  ["RAMPART_CILIUM_ZTUNNEL", "Cilium's ztunnel, three times"],
] as const;

const longestSeconds = 10;

export async function playZtunnels(parent: string): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [variable, client] of ztunnels) {
    const folder = join(parent, variable.toLowerCase());
    await mkdir(folder);
    outcomes.push(await playThree(variable, client, folder));
  }
  return outcomes;
}

/** Three ztunnels, of which `a` and `c` call `b`. The certificate of `a` is revoked. */
async function playThree(variable: string, client: string, folder: string): Promise<Outcome> {
  const names = {
    client,
    server: "rampart serve, CRL file of rampart agent",
    what: "a certificate is revoked under load",
  };
  const ztunnel = namedBy(variable);
  if ("notPlayed" in ztunnel) return { ...names, result: "not played", detail: ztunnel.notPlayed };
  const network = await makeNetwork(["a", "b", "c"]).catch(String);
  if (typeof network === "string") return notRun(names, network);
  const outcome = await shown(names, async () => {
    const ca = await startServingCa(join(folder, "ztunnel-ca"), { host: "0.0.0.0" });
    const detail = await playIn({ program: ztunnel.program, folder, ca, network });
    await ca.end();
    return detail;
  });
  await network.end();
  return outcome;
}

interface Parts {
  readonly program: string;
  readonly folder: string;
  readonly ca: ServingCa;
  readonly network: Network;
}

async function playIn(parts: Parts): Promise<string> {
  const { folder, ca } = parts;
  const { agent, certificates } = await startAgent({ folder, ca }, "file");
  const options = { ...parts, crlFile: join(certificates, "ca-crl.pem") };
  const [a, b, c] = await Promise.all([
    startZtunnel(options, "a"),
    startZtunnel(options, "b"),
    startZtunnel(options, "c"),
  ]);
  await until("first answers", async () => {
    return (await a.call(b.ip)) === 200 && (await c.call(b.ip)) === 200;
  });
  const others = new Calls(c, b.ip);
  const revoked = await a.serialNumber();
  await ca.revokeSerials([revoked]);
  const begin = performance.now();
  const seconds = (): string => ((performance.now() - begin) / 1000).toFixed(1);
  await until("a is refused", async () => (await a.call(b.ip)) !== 200, longestSeconds);
  const refused = seconds();
  await until("a has another certificate", async () => (await a.call(b.ip)) === 200, 90);
  const renewed = seconds();
  if ((await a.serialNumber()) === revoked) throw new Error("the revoked certificate is accepted");
  const { requests, failed } = await others.end();
  await Promise.all([a.end(), b.end(), c.end(), agent.end()]);
  if (failed > 0) throw new Error(`${failed} of ${requests} requests of the other client failed`);
  return `refused after ${refused} s; after ${renewed} s it had renewed as usual; others: ${requests} requests, 0 failed`;
}

/** Requests without a pause. */
class Calls {
  #isEnding = false;
  #requests = 0;
  #failed = 0;
  readonly #running: Promise<void>;

  constructor(client: Ztunnel, ip: string) {
    this.#running = this.#run(client, ip);
  }

  async end(): Promise<{ readonly requests: number; readonly failed: number }> {
    this.#isEnding = true;
    await this.#running;
    return { requests: this.#requests, failed: this.#failed };
  }

  async #run(client: Ztunnel, ip: string): Promise<void> {
    while (!this.#isEnding) {
      if ((await client.call(ip)) !== 200) this.#failed++;
      this.#requests++;
      await sleep(50);
    }
  }
}
