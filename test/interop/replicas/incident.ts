import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { type NativeClient, nativeClient } from "../../testkit/network/native-grpc.ts";
import { run } from "../../testkit/programs/child-process.ts";
import { withoutBuilds } from "../../testkit/programs/environment.ts";
import { sourceProgram } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import { servedName } from "./renewals.ts";
import { createReplica, type Replica } from "./replica.ts";
import type { SharedService } from "./shared-service.ts";

/** A pod that asks by a token of its cluster. */
export interface CallingPod {
  readonly account: string;
  readonly uid: string;
  readonly token: string;
}

/** Where a CA has its records and its log, and pods that ask it. */
export interface LoggedMesh {
  readonly service: Pick<SharedService, "port" | "keysBehind" | "environment">;
  /** `LOG_STORE`, and what its bucket takes beside the keys of the records. */
  readonly log: Readonly<Record<string, string>>;
  readonly ISSUERS: readonly Readonly<Record<string, unknown>>[];
  /** The node that is taken, and its pods. */
  readonly node: string;
  readonly onNode: readonly CallingPod[];
  /** A pod of another node, which is taken by itself, and one that nobody takes. */
  readonly taken: CallingPod;
  readonly healthy: CallingPod;
}

const readers = "r".repeat(40);
const certificatesOfEach = 2;

/** What an operator types, and the verdicts of it. */
interface Stage {
  readonly folder: string;
  readonly replica: Replica;
  readonly client: NativeClient;
  readonly mesh: LoggedMesh;
  readonly log: string;
  readonly type: (...words: readonly string[]) => ReturnType<typeof run>;
}

/** The pages on incidents and policies, by a log in a bucket: revoked and denied by node and by pod, and replayed. */
export async function playIncident(mesh: LoggedMesh, parent: string): Promise<string> {
  const folder = join(parent, "incident");
  await mkdir(folder);
  await using cleanup = new AsyncDisposableStack();
  const { environment } = mesh.service;
  const service = { ...mesh.service, environment: { ...environment, LOG_READERS: readers } };
  const replica = await createReplica("logged", folder, service, keysOf(mesh));
  cleanup.defer(replica.end);
  await replica.start();
  await until("the CA is not ready", replica.isReady);
  const roots = (await replica.bundle()) ?? "";
  await writeFile(join(folder, "roots.pem"), roots);
  const client = nativeClient(replica.port, servedName, { roots });
  cleanup.defer(client.close);
  const variables = withoutBuilds({ ...environment, RAMPART_LOG_TOKEN: readers });
  const type: Stage["type"] = (...words) =>
    run(process.execPath, [sourceProgram, ...words], { environment: variables });
  const log = replica.monitoringUrl("/log/0");
  const stage = { folder, replica, client, mesh, log, type };
  const chains = await issue(stage);
  await refusesWrongNode(stage);
  await distrust(stage, [...chains.taken, ...chains.onNode]);
  await untilInForce(stage, chains);
  return await replay(stage);
}

const keysOf = ({ ISSUERS, log }: LoggedMesh): Readonly<Record<string, unknown>> => ({
  ...log,
  ISSUERS,
  PROPAGATION_INTERVAL: "10s",
  SERVING_NAMES: [servedName],
  INCEPTION_DATE: new Date().toISOString().slice(0, 10),
  CRL: "on",
  LOG_ORIGIN: "log.test/incident",
  LOG_INTERVAL: "1s",
});

async function ask({ client }: Stage, { token }: CallingPod) {
  const { csrPem: csr } = await createWorkload();
  return client.createCertificate({ csr }, { authorization: `Bearer ${token}` });
}

/** The chains that the pods got, PEM. */
interface Chains {
  readonly onNode: readonly string[];
  readonly taken: readonly string[];
  readonly healthy: readonly string[];
}

/** Gives each pod certificates, and waits until the log has them. */
async function issue(stage: Stage): Promise<Chains> {
  const { mesh, type, log } = stage;
  const get = async (pods: readonly CallingPod[]): Promise<string[]> => {
    const chains: string[] = [];
    for (const pod of pods.flatMap((each) => Array(certificatesOfEach).fill(each))) {
      const outcome = await ask(stage, pod);
      assert("certChain" in outcome, JSON.stringify(outcome));
      chains.push(outcome.certChain.join("\n"));
    }
    return chains;
  };
  const chains = {
    onNode: await get(mesh.onNode),
    taken: await get([mesh.taken]),
    healthy: await get([mesh.healthy]),
  };
  const issued = Object.values(chains).flat().length;
  await until("the log has not what was issued", async () => {
    const workloads = ["--namespace", "*", "--json"];
    const { stdout } = await type("log", "search", "--url", log, ...workloads);
    return stdout.split("\n").filter(Boolean).length === issued;
  });
  return chains;
}

/** A name that no node can have chooses nothing, and says so. */
async function refusesWrongNode({ type, log, replica, mesh }: Stage): Promise<void> {
  const words = ["--url", log, "--yes", "--config", replica.configurationFile];
  const { exitCode, stderr } = await type("certificate", "revoke", "--node", "Node 1", ...words);
  assert.notEqual(exitCode, 0);
  assert.match(stderr, /must be the whole name of a node/);
  const other = await type("certificate", "revoke", "--node", `${mesh.node}0`, ...words);
  assert.match(other.stdout, /There is nothing to revoke/);
}

/** Types the page of a taken node, and the same of a pod. */
async function distrust(stage: Stage, chains: readonly string[]): Promise<void> {
  const { type, mesh, log, replica } = stage;
  const config = ["--config", replica.configurationFile];
  const verb = async (...words: readonly string[]): Promise<string> => {
    const { exitCode, stdout, stderr } = await type(...words, ...config);
    assert.equal(exitCode, 0, `${words.join(" ")}: ${stderr}`);
    return stdout;
  };
  const why = ["--why", "rootkit, case 118", "--yes"];
  const chosen = ["--since", "48h", "--with-renewals", "--url", log];
  for (const [kind, name] of [
    ["node", mesh.node],
    ["pod", mesh.taken.uid],
  ] as const) {
    await verb("deny", "add", `${kind}/${name}`, "--until", "72h", ...why);
    const reason = ["--reason", "keyCompromise", "--yes"];
    await verb("certificate", "revoke", `--${kind}`, name, ...chosen, ...reason);
  }
  const revoked = JSON.parse(await verb("certificate", "revoked", "--json"));
  const serials = revoked.map(({ serial }: { serial: string }) => BigInt(`0x${serial}`));
  const due = chains.map((pem) => BigInt(`0x${new X509Certificate(pem).serialNumber}`));
  assert.deepEqual(serials.toSorted(), due.toSorted());
}

/** OpenSSL reads the CRL, and the CA refuses who is denied: both of them, and nobody else. */
async function untilInForce(stage: Stage, chains: Chains): Promise<void> {
  const { folder, replica, mesh } = stage;
  const [crl, leaf] = [join(folder, "crl.pem"), join(folder, "leaf.pem")];
  const trust = ["-crl_check", "-CAfile", join(folder, "roots.pem"), "-CRLfile", crl];
  const isRevoked = async (pem: string): Promise<boolean> => {
    await writeFile(leaf, pem);
    const { exitCode, stderr } = await run("openssl", ["verify", ...trust, leaf]);
    if (exitCode === 0) return false;
    assert.match(stderr, /certificate revoked/);
    return true;
  };
  const revoked = [...chains.onNode, ...chains.taken];
  await until("a revoked certificate is accepted", async () => {
    await writeFile(crl, await (await fetch(replica.monitoringUrl("/crl.pem"))).text());
    for (const pem of revoked) if (!(await isRevoked(pem))) return false;
    return true;
  });
  for (const pem of chains.healthy) assert.equal(await isRevoked(pem), false);
  for (const pod of [...mesh.onNode, mesh.taken]) {
    await until(`${pod.account} still gets certificates`, async () => {
      const outcome = await ask(stage, pod);
      return "code" in outcome && outcome.code === "PermissionDenied";
    });
  }
  const outcome = await ask(stage, mesh.healthy);
  assert("certChain" in outcome, JSON.stringify(outcome));
}

/** Replays the log over the rules that there are, and over one that cuts an account off. */
async function replay({ folder, type, log, mesh }: Stage): Promise<string> {
  const replayed = async (rules: readonly object[]) => {
    const file = join(folder, "new.toml");
    await writeFile(file, stringify({ ISSUERS: mesh.ISSUERS, POLICY: { rules } }));
    const words = ["--since", "30d", "--url", log, "--dir", join(folder, "copy"), "--json"];
    const { exitCode, stdout, stderr } = await type("policy", "replay", file, ...words);
    assert(exitCode === 0 || exitCode === 3, stderr);
    return { exitCode, ...JSON.parse(stdout) };
  };
  const life = { name: "all", then: { maximum_life: "24h" } };
  const { exitCode, requests } = await replayed([life]);
  assert.equal(exitCode, 0);
  const { account } = mesh.taken;
  const cut = { name: "cut", when: { account }, then: { deny: "it is gone" } };
  const after = await replayed([cut]);
  const { exitCode: code, changes, rules } = after;
  assert.deepEqual([code, changes], [3, certificatesOfEach], JSON.stringify(after));
  assert.equal(rules[0].effects.denied, certificatesOfEach);
  const revoked = certificatesOfEach * (mesh.onNode.length + 1);
  return `${revoked} revoked by node and by pod, ${requests} requests replayed`;
}
