import { join } from "node:path";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { run } from "../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";
import { type Outcome, report } from "../outcomes.ts";
import { fromGoRelease } from "../software.ts";
import { type Domains, startDomains } from "./domains.ts";
import { playFederation } from "./federation.ts";
import { playLog } from "./past-log.ts";
import {
  gatewayTable,
  type Platform,
  startEdge,
  startGateway,
  startLambda,
  startServing,
} from "./platforms.ts";
import { denials, gotten, identityAt, type Play, plays } from "./plays.ts";
import { startSpire } from "./spire.ts";
import { playTenants } from "./tenants.ts";

const client = "tokens of GitHub, GitLab, AWS, Google and Azure by keys of the suite, and SPIRE's";
const folder = await lastingFolder();
const { csrPem: csr } = await createWorkload();
const outcomes: Outcome[] = [];

/** Shows each token once. @returns What went otherwise. */
async function show(platform: Platform, domains: Domains, all: readonly Play[]): Promise<string[]> {
  const faults: string[] = [];
  for (const { what, domain, claims, by, named, gets } of all) {
    const token = await domains.mint(domain, claims, by);
    const got = gotten(await platform.ask({ csr, token, named }));
    if (got !== gets) faults.push(`${domain}, ${what}: ${got} in place of ${gets}`);
  }
  return faults;
}

async function playAll(platform: Platform, domains: Domains): Promise<void> {
  const faults = await show(platform, domains, plays);
  console.log(`${platform.name}: ${plays.length - faults.length} of ${plays.length}`);
  outcomes.push({ client, server: platform.name, passed: plays.length - faults.length, faults });
}

/** A platform rotates its key: the CA looks for it at most once in 30 seconds, and drops the old one. */
async function playRotation(platforms: readonly Platform[], domains: Domains): Promise<void> {
  const old = await domains.mint("github");
  await domains.rotate("github");
  for (const platform of platforms) {
    const faults: string[] = [];
    const isTaken = async (): Promise<boolean> => {
      const token = await domains.mint("github");
      return gotten(await platform.ask({ csr, token })) === identityAt("github");
    };
    await until("a new key is not found", isTaken, 120).catch((error) =>
      faults.push(String(error)),
    );
    const after = gotten(await platform.ask({ csr, token: old }));
    if (after !== "Unauthenticated") faults.push(`a token of the old key got ${after}`);
    const passed = 2 - faults.length;
    outcomes.push({ client: "GitHub with another key", server: platform.name, passed, faults });
  }
}

async function play(program: string): Promise<void> {
  await using ends = new AsyncDisposableStack();
  const started = async <P extends { readonly end: () => Promise<void> }>(starting: Promise<P>) => {
    const it = await starting;
    ends.defer(it.end);
    return it;
  };
  const domains = await started(startDomains(await started(startSpire(program, folder))));
  const valuesFor = async (target: "serve" | "worker") => ({
    ISSUERS: [await gatewayTable(), ...(await domains.tables(target))],
    DENIED: denials,
  });
  const edge = await started(startEdge(await valuesFor("worker")));
  const gateway = await started(startGateway(folder, edge));
  const serving = await started(startServing(folder, await valuesFor("serve")));
  const lambda = await started(startLambda(folder, await valuesFor("worker")));
  const platforms = [serving, gateway, edge, lambda];
  for (const platform of platforms) await playAll(platform, domains);
  outcomes.push(await playTenants(folder, csr));
  outcomes.push(await playLog(folder, domains, csr));
  outcomes.push(...(await playFederation(program, folder)));
  await playRotation(platforms, domains);
}

/** The machines are played in a network namespace, which takes root. */
async function playAgents(): Promise<Outcome> {
  const names = {
    client: "rampart agent on GCE, EC2, Azure and a GitHub runner",
    server: "rampart serve",
  };
  const address = "ip link set lo up && ip addr add 169.254.169.254/32 dev lo";
  const entering = ["--net", "sh", "-c", `${address} && exec "$0" "$@"`];
  const mayEnter = await run("unshare", [...entering, "true"]).then(
    ({ exitCode }) => exitCode === 0,
    () => false,
  );
  if (!mayEnter) {
    const notPlayed = "unshare and ip, which it takes root for, are not to be had";
    return { ...names, passed: 0, faults: [], notPlayed };
  }
  const inside = [process.execPath, join(import.meta.dirname, "agents.ts")];
  const { stdout, stderr } = await run("unshare", [...entering, ...inside], {
    timeoutSeconds: 900,
  });
  const last = stdout.trim().split("\n").at(-1) ?? "";
  if (!last.startsWith("{")) return { ...names, passed: 0, faults: [stderr.slice(-2000)] };
  return { ...names, ...(JSON.parse(last) as Pick<Outcome, "passed" | "faults">) };
}

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const software = await fromGoRelease("github.com/spiffe/spire", "v1.13.0", "cmd/spire-server", {
  seconds: 1500,
});
if ("missing" in software)
  outcomes.push({ client, server: "all", passed: 0, faults: [], ...software });
else await play(software.program);
outcomes.push(await playAgents());
report(outcomes);
process.exit();
