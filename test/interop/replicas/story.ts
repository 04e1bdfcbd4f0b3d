import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { runRampart } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import { istiodName } from "../native-grpc/mesh.ts";
import { type LoadBalancer, startLoadBalancer } from "./load-balancer.ts";
import { Renewals } from "./renewals.ts";
import { type Replica, startReplicas } from "./replica.ts";
import type { SharedService } from "./shared-service.ts";

const issuer = "https://issuer.example.com";
const workloads = 32;

/**
 * Two replicas found a CA together and live through a rotation and what may befall them, while workloads renew all the
 * time.
 *
 * @returns The figures of the whole story.
 */
export async function playReplicaStory(service: SharedService, folder: string): Promise<string> {
  await using cleanup = new AsyncDisposableStack();
  const key = await createTokenKey("ES256", "k1");
  // A certificate lasts longer than two calls that a replica without its store holds for three seconds each.
  const keys = {
    PROPAGATION_INTERVAL: "10s",
    MAX_WORKLOAD_CERT_TTL: "20s",
    SERVING_NAMES: [istiodName],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
  };
  const replicas = await startReplicas(["a", "b"], folder, service, keys, cleanup);
  const [first] = replicas;
  assert(first);
  const balancer = await startLoadBalancer(replicas);
  cleanup.defer(balancer.end);
  const renewals = new Renewals({
    port: balancer.port,
    replicas,
    count: workloads,
    token: (account) => mintAccountToken(key, issuer, account, new Date()),
    roots: (await first.bundle()) ?? "",
  });
  cleanup.defer(() => renewals.stop());
  const type = (...words: readonly string[]): Promise<string> => {
    const { environment } = service;
    return runRampart([...words, "--config", first.configurationFile], { environment });
  };
  const acts: Readonly<Record<string, () => Promise<unknown>>> = {
    "an operator rotates the authority": () => type("authority", "rotate", "--yes"),
    "the store's service goes away, and returns": service.restart,
    "the first replica loses the store until it refuses calls": () => isolate(first),
    "the first replica is killed, and returns": () => killAndReturn(first),
    "a rolling update": () => rollingUpdate(replicas, balancer),
    "the next authority signs": () =>
      until("nobody else signs", () => renewals.figures().authorities === 2, 120),
  };
  for (const [what, act] of Object.entries(acts)) {
    await act();
    console.log(`        ${what}: ${renewals.figures().renewals} renewals so far`);
  }
  await until("the replicas publish different bundles", async () => {
    const [one, other] = await Promise.all(replicas.map(({ bundle }) => bundle()));
    return one !== undefined && one === other;
  });
  await renewals.stop();
  const { renewals: count, faults } = renewals.figures();
  assert.deepEqual(faults.slice(0, 5), []);
  assert(count > 4 * workloads, `only ${count} renewals`);
  const authorities = JSON.parse(await type("authority", "list", "--json"));
  assert.equal(authorities.length, 2, "two replicas have minted at once");
  const lines = replicas.flatMap((each) => each.lines());
  assert.deepEqual(lines.filter((line) => defect.test(line)).slice(0, 5), []);
  return `${count} renewals, 0 failed`;
}

/** The events of a defect of the program, or of a record that it cannot read. */
const defect = /"event":"(?:fault|http-fault|record-refused)"/;

const untilReady = (replica: Replica): Promise<void> =>
  until(`${replica.name} is not ready`, replica.isReady);

/** A replica without the store serves what it knows for one propagation interval, and then refuses. */
async function isolate(replica: Replica): Promise<void> {
  replica.link.hold();
  await until(`${replica.name} still serves`, async () => (await replica.bundle()) === undefined);
  assert.equal(await replica.isReady(), false);
  replica.link.mend();
  await untilReady(replica);
}

export async function killAndReturn(replica: Replica): Promise<void> {
  await replica.kill();
  await sleep(500);
  await replica.start();
  await untilReady(replica);
}

/**
 * As a Deployment with `maxUnavailable: 0` would, but for the new pod, which has the address of the old one. A busy
 * machine may cut a handshake that takes longer than the pause, which here is shorter than in a Deployment.
 */
export async function rollingUpdate(
  replicas: readonly Replica[],
  balancer: LoadBalancer,
): Promise<void> {
  for (const replica of replicas) {
    balancer.remove(replica);
    await sleep(3000);
    assert.equal(await replica.drain(), 0);
    await replica.start();
    await untilReady(replica);
    balancer.add(replica);
  }
}
