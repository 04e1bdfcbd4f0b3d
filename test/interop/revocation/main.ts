import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";
import { counted, SteadyLoad, statusOf } from "../agent/processes/steady-load.ts";
import { envoyOf, pythonWithEnvoy } from "../envoy.ts";
import { type Outcome, playAll, reportOutcomes, shown } from "../outcome-table.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import { required } from "../software.ts";
import { playPilotAgent } from "./pilot-agent-scene.ts";
import {
  type Certified,
  callWith,
  secondsUntil,
  serialOf,
  startAgent,
  startSidecar,
  stealFrom,
  type Workload,
} from "./workloads.ts";
import { playZtunnels } from "./ztunnel-scene.ts";

const names = { client: "Envoy 1.40.0, three times", server: "rampart agent, rampart serve" };

/** The parts of every scene: `a` and `c` call `b`, and no scene may disturb `c`. */
interface Stage {
  readonly ca: ServingCa;
  readonly a: Workload;
  readonly b: Workload;
  readonly c: Workload;
  readonly certified: (name: string) => Promise<Certified>;
}

const longestSeconds = 10;
const manyRevoked = 100_000;

const scenes: readonly (readonly [what: string, play: (stage: Stage) => Promise<string>])[] = [
  ["a stolen certificate is revoked under load", stolenCertificate],
  [`${manyRevoked} revoked serial numbers`, manySerials],
];

/** The thief is refused, and the workload goes on with another certificate. */
async function stolenCertificate({ ca, a, b }: Stage): Promise<string> {
  const loot = await stealFrom(a);
  await mustSay("200", await callWith(loot, b.port));
  await ca.revoke(loot.cert);
  const refused = await secondsUntil("the thief is refused", longestSeconds, async () => {
    return (await callWith(loot, b.port)) !== "200";
  });
  const healed = await secondsUntil("the workload has another certificate", 30, async () => {
    const { cert } = await stealFrom(a);
    return serialOf(cert) !== serialOf(loot.cert) && (await statusOf(a.url)) === "200";
  });
  for (let i = 0; i < 10; i++) await mustSay("200", await statusOf(a.url));
  const said = await callWith(loot, b.port);
  if (!/certificate revoked/.test(said)) throw new Error(`the thief is told ${said}`);
  return `refused after ${refused} s by the alert "certificate revoked"; the workload had another certificate ${healed} s later`;
}

async function manySerials({ ca, b, certified }: Stage): Promise<string> {
  const loot = await stealFrom(await certified("e"));
  await mustSay("200", await callWith(loot, b.port));
  const strangers = Array.from(
    { length: manyRevoked - 1 },
    () => `7f${randomBytes(16).toString("hex")}`,
  );
  await ca.revokeSerials([...strangers, serialOf(loot.cert)]);
  const refused = await secondsUntil("the thief is refused", 180, async () => {
    return (await callWith(loot, b.port)) !== "200";
  });
  const rejected = await updatesRejected(b);
  if (rejected !== 0) throw new Error(`Envoy has rejected ${rejected} updates`);
  const mib = ((await ca.crlOctets()) / 2 ** 20).toFixed(1);
  return `${mib} MiB of PEM, in force ${refused} s after the last record`;
}

/** The sum of Envoy's counters of rejected secrets. */
async function updatesRejected({ adminUrl }: Workload): Promise<number> {
  const text = await (await fetch(`${adminUrl}/stats?filter=sds.*update_rejected`)).text();
  return [...text.matchAll(/: (\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function mustSay(expected: string, said: string): Promise<void> {
  if (said !== expected) throw new Error(`${said} instead of ${expected}`);
}

async function play(envoy: string, folder: string): Promise<Outcome[]> {
  const ca = await startServingCa(join(folder, "ca"));
  const mesh = { envoy, folder, ca };
  // Envoys on one machine share memory by this number, so each suite needs its own.
  const baseId = process.pid * 4 + 2_000_000;
  const b = await startSidecar(mesh, "b", baseId);
  const [a, c] = await Promise.all([
    startSidecar(mesh, "a", baseId + 1, b.port),
    startSidecar(mesh, "c", baseId + 2, b.port),
  ]);
  await until("first answers", async () => {
    const statuses = await Promise.all([statusOf(a.url), statusOf(c.url)]);
    return statuses.every((status) => status === "200");
  });
  const others: Certified[] = [];
  const certified = async (name: string): Promise<Certified> => {
    const other = await startAgent(mesh, name);
    others.push(other);
    return other;
  };
  const outcomes: Outcome[] = [];
  const load = new SteadyLoad([c.url, c.url]);
  for (const [what, act] of scenes) {
    load.take();
    const play = async () =>
      `${await act({ ca, a, b, c, certified })}; others, with a handshake each: ${counted(load)}`;
    outcomes.push(await shown({ ...names, what }, play));
  }
  await load.stop();
  await Promise.all([a.end(), b.end(), c.end(), ...others.map(({ agent }) => agent.end())]);
  await ca.end();
  return outcomes;
}

const folder = await lastingFolder();
reportOutcomes([
  ...(await playAll(names, async () => {
    const envoy = await envoyOf(await required(pythonWithEnvoy()));
    return [...(await play(envoy, folder)), await playPilotAgent(envoy, folder)];
  })),
  ...(await playZtunnels(folder)),
]);
process.exit();
