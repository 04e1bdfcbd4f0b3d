import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod/mini";
import { createSharedStore } from "../../../src/custody/shared/shared-store.ts";
import { parseServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { phaseAt, type Schedule } from "../../../src/pki/authority/schedule.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { commandLine } from "../native-grpc/servers/rampart-process.ts";
import { runWell } from "../programs.ts";
import { type LoadBalancer, startLoadBalancer } from "./load-balancer.ts";
import { type RenewalFigures, Renewals, servedName } from "./renewals.ts";
import { createReplica, type Replica } from "./replica.ts";
import { seedHistory } from "./seeded-history.ts";
import type { SharedService } from "./shared-service.ts";

/** Short lifetimes: an authority signs for 84 seconds before its successor does. */
const lifetimes = {
  PROPAGATION_INTERVAL: "20s",
  MAX_WORKLOAD_CERT_TTL: "16s",
  AUTHORITY_LIFETIME: "184s",
};

/** With these lifetimes, the second authority signs 124 seconds after the first was founded. */
const foundedSecondsAgo = 110;

const issuer = "https://issuer.example.com";
const workloads = 32;

interface Scene {
  readonly service: SharedService;
  readonly replicas: readonly [Replica, Replica];
  readonly balancer: LoadBalancer;
  readonly renewals: Renewals;
}

/** An act of the story, and what it says when it is over. */
type Act = readonly [string, (scene: Scene) => Promise<void>];

/** The acts in their order. While one replica suffers, the other serves. */
const acts: readonly Act[] = [
  ["nothing happens", () => sleep(2000)],
  ["the store's service restarts", ({ service }) => service.restart()],
  ["the first replica loses the store until it refuses calls", ({ replicas: [a] }) => isolate(a)],
  ["the second replica is lost, and returns", ({ replicas: [, b] }) => lose(b)],
  ["the second replica loses the store for a while", ({ replicas: [, b] }) => partition(b)],
  ["the first replica is lost, and returns", ({ replicas: [a] }) => lose(a)],
  ["an operator taints the authority that signs", taintSigning],
  ["a rolling update", rollingUpdate],
  ["nothing happens", () => sleep(2000)],
];

/** Plays two replicas through everything that may befall them, while workloads renew all the time. */
export async function playReplicaStory(service: SharedService, folder: string): Promise<void> {
  const begun = performance.now();
  await using cleanup = new AsyncDisposableStack();
  const scene = await setScene(service, folder, cleanup);
  const say = (what: string): void =>
    console.log(
      `        ${((performance.now() - begun) / 1000).toFixed(1).padStart(6)} s  ${what}`,
    );
  let before = scene.renewals.figures();
  try {
    for (const [name, play] of acts) {
      await play(scene);
      const after = scene.renewals.figures();
      say(`${name}: ${sentenceOf(after, before)}`);
      before = after;
    }
    const records = await endOnSameRecords(scene);
    await scene.renewals.stop();
    say(`in all: ${sentenceOf(scene.renewals.figures())}; ${records}`);
    requireNoFailure(scene.renewals.figures());
  } finally {
    const { failedAttempts } = scene.renewals.figures();
    for (const [what, count] of failedAttempts) say(`attempts that failed: ${count} × ${what}`);
  }
}

async function setScene(
  service: SharedService,
  folder: string,
  cleanup: AsyncDisposableStack,
): Promise<Scene> {
  const key = await createTokenKey("ES256", "k1");
  const founded = addSeconds(new Date(), -foundedSecondsAgo);
  const keys = {
    ...lifetimes,
    SERVING_NAMES: [servedName],
    INCEPTION_DATE: founded.toISOString().slice(0, 10),
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
  };
  const whole = { ...keys, ...service.keysBehind(service.port), KEK: service.environment.KEK };
  const store = createSharedStore(service.space);
  await seedHistory(parseServeConfiguration(whole), store, founded, new Date());
  const replicas = [
    await createReplica("a", folder, service, keys),
    await createReplica("b", folder, service, keys),
  ] as const;
  for (const each of replicas) cleanup.defer(each.end);
  await Promise.all(replicas.map((each) => each.start()));
  const balancer = await startLoadBalancer(replicas);
  cleanup.defer(balancer.end);
  const renewals = new Renewals({
    ...{ port: balancer.port, replicas, count: workloads },
    token: (account) => mintAccountToken(key, issuer, account, new Date()),
    roots: (await replicas[0].bundle()) ?? "",
  });
  cleanup.defer(() => renewals.stop());
  return { service, replicas: [...replicas], balancer, renewals };
}

/** Waits until something is so. The story as a whole is bounded by this. */
async function until(what: string, isSo: () => Promise<boolean>, seconds = 60): Promise<void> {
  for (const end = performance.now() + 1000 * seconds; performance.now() < end; ) {
    if (await isSo()) return;
    await sleep(200);
  }
  assert.fail(what);
}

/** A replica without the store serves what it knows for one propagation interval, and then refuses. */
async function isolate(replica: Replica): Promise<void> {
  replica.link.hold();
  await until(`${replica.name} still serves`, async () => (await replica.bundle()) === undefined);
  assert.equal(await replica.isReady(), false);
  replica.link.mend();
  await until(`${replica.name} is not ready`, replica.isReady);
}

async function partition(replica: Replica): Promise<void> {
  replica.link.hold();
  await sleep(5000);
  assert.equal(await replica.isReady(), true);
  replica.link.mend();
}

async function lose(replica: Replica): Promise<void> {
  await replica.kill();
  await sleep(1000);
  await replica.start();
}

async function verb({ service, replicas: [a] }: Scene, ...words: string[]): Promise<string> {
  const values = [commandLine, ...words, "--config", a.configurationFile];
  return runWell(process.execPath, values, { environment: service.environment });
}

/** The records of authorities say in the clear when each signs. */
async function schedules({ service }: Scene): Promise<readonly (Schedule & { id: string })[]> {
  const records = await createSharedStore(service.space).load();
  return records
    .filter(({ kind }) => kind === "authority")
    .map(({ id, value }) => ({ id, ...scheduleForm.parse(JSON.parse(value)).schedule }))
    .toSorted((a, b) => a.signsFrom.getTime() - b.signsFrom.getTime());
}

const instant = z.pipe(
  z.string(),
  z.transform((text) => new Date(text)),
);
const scheduleForm = z.object({
  schedule: z.object({
    ...{ publishedFrom: instant, signsFrom: instant },
    ...{ signsUntil: instant, retiresAt: instant },
  }),
});

/** The successor is in every bundle already, so it signs as soon as a replica learns of the taint. */
async function taintSigning(scene: Scene): Promise<void> {
  const all: (Schedule & { id: string })[] = [];
  await until("no successor is published", async () => {
    all.splice(0, all.length, ...(await schedules(scene)));
    return all.some((each) => phaseAt(each, new Date()) === "published");
  });
  const signing = all.findLast((each) => phaseAt(each, new Date()) === "signing");
  assert(signing);
  const before = scene.renewals.figures().byAuthority.size;
  await verb(scene, "authority", "taint", signing.id, "--root", "with-last-leaf", "--yes");
  await until(
    "nobody signs in its place",
    async () => scene.renewals.figures().byAuthority.size > before,
  );
}

/**
 * As a Deployment with `maxUnavailable: 0` would, but for the new pod, which has the address of the old one. A busy
 * machine may cut a handshake that takes longer than the pause, which here is shorter than in a Deployment.
 */
async function rollingUpdate({ replicas, balancer }: Scene): Promise<void> {
  for (const replica of replicas) {
    balancer.remove(replica);
    await sleep(3000);
    assert.equal(await replica.drain(), "exit code 0");
    await replica.start();
    await until(`${replica.name} is not ready`, replica.isReady);
    balancer.add(replica);
  }
}

/** Both replicas publish the same, which the records of the store say. */
async function endOnSameRecords(scene: Scene): Promise<string> {
  const { service, replicas } = scene;
  await until("the replicas publish different bundles", async () => {
    const bundles = await Promise.all(replicas.map(({ bundle }) => bundle()));
    return bundles[0] !== undefined && bundles[0] === bundles[1];
  });
  const [bundle = ""] = await Promise.all(replicas.map((each) => each.bundle()));
  const roots = bundle.split("BEGIN CERTIFICATE").length - 1;
  const objects = [...(await service.space.list("now")).keys()].toSorted();
  const published = (await schedules(scene)).map(({ publishedFrom }) => publishedFrom.getTime());
  const apart = published.slice(1).map((at, i) => (at - (published[i] ?? 0)) / 1000);
  assert(Math.min(...apart) > 60, `two replicas have minted at once: ${apart}`);
  const records = objects.filter((each) => each.includes("/"));
  const digest = createHash("sha256").update(records.join()).digest("hex").slice(0, 8);
  return `both end on ${records.length} records (${digest}) and a bundle of ${roots} roots`;
}

const sum = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((a, b) => a + b, 0);

const failedAttemptsOf = ({ failedAttempts }: RenewalFigures): number => sum(failedAttempts);

function sentenceOf(now: RenewalFigures, before?: RenewalFigures): string {
  const renewals = now.renewals - (before?.renewals ?? 0);
  const retried = failedAttemptsOf(now) - (before ? failedAttemptsOf(before) : 0);
  const failed = now.failed - (before?.failed ?? 0);
  const checked = now.verifications - (before?.verifications ?? 0);
  return `${renewals} renewals, ${failed} failed, ${retried} attempts repeated, ${checked} verifications, slowest ${now.slowestMilliseconds.toFixed(0)} ms`;
}

function requireNoFailure(figures: RenewalFigures): void {
  const { renewals, failed, expired, unverified, byAuthority } = figures;
  assert.deepEqual([...new Set(unverified)], []);
  assert.equal(failed, 0, `${failed} renewals failed`);
  assert.equal(expired, 0, `${expired} certificates ended before the next`);
  assert(renewals > 5 * workloads, `only ${renewals} renewals`);
  assert(byAuthority.size >= 3, "three authorities sign in turn");
}
