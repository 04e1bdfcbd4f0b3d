import { join } from "node:path";
import { serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { type NativeClient, nativeClient } from "../../testkit/network/native-grpc.ts";
import { run } from "../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";
import { type Outcome, report } from "../outcomes.ts";
import { fromGoRelease } from "../software.ts";
import { type Domains, startDomains } from "./domains.ts";
import { playFederation } from "./federation.ts";
import { gotten, identityAt, plays } from "./plays.ts";
import { startSpire } from "./spire.ts";

const client = "tokens of GitHub, GitLab, AWS, Google and Azure by keys of the suite, and SPIRE's";
const server = "rampart serve";
const folder = await lastingFolder();
const { csrPem: csr } = await createWorkload();
const outcomes: Outcome[] = [];

/** Asks for a certificate by native gRPC, with a token and maybe another name. @returns Its SPIFFE ID, or a code. */
type Ask = (token: string, named?: string) => Promise<string>;

const askOf =
  (client: NativeClient): Ask =>
  async (token, named) => {
    const metadata = named === undefined ? {} : { metadata: { ImpersonatedIdentity: named } };
    const headers = { authorization: `Bearer ${token}` };
    return gotten(await client.createCertificate({ csr, ...metadata }, headers));
  };

/** Shows each token once. */
async function playAll(ask: Ask, domains: Domains): Promise<void> {
  const faults: string[] = [];
  for (const { what, domain, claims, named, gets } of plays) {
    const got = await ask(await domains.mint(domain, claims), named);
    if (got !== gets) faults.push(`${domain}, ${what}: ${got} in place of ${gets}`);
  }
  outcomes.push({ client, server, passed: plays.length - faults.length, faults });
}

/** A platform rotates its key: the CA looks for it at most once in 30 seconds, and drops the old one. */
async function playRotation(ask: Ask, domains: Domains): Promise<void> {
  const old = await domains.mint("github");
  await domains.rotate("github");
  const faults: string[] = [];
  const isTaken = async (): Promise<boolean> =>
    (await ask(await domains.mint("github"))) === identityAt("github");
  await until("a new key is not found", isTaken, 120).catch((error) => faults.push(String(error)));
  const after = await ask(old);
  if (after !== "Unauthenticated") faults.push(`a token of the old key got ${after}`);
  outcomes.push({ client: "GitHub with another key", server, passed: 2 - faults.length, faults });
}

async function play(program: string): Promise<void> {
  await using ends = new AsyncDisposableStack();
  const spire = await startSpire(program, folder);
  ends.defer(spire.end);
  const domains = await startDomains(spire);
  ends.defer(domains.end);
  const ca = await serveCa({ ISSUERS: await domains.tables() });
  ends.defer(ca.end);
  const caller = nativeClient(ca.port, servedName, { roots: await ca.bundle() });
  ends.defer(async () => caller.close());
  await playAll(askOf(caller), domains);
  outcomes.push(...(await playFederation(program, folder)));
  await playRotation(askOf(caller), domains);
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
