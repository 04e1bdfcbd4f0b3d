import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod/mini";
import { createSharedStore } from "../../../src/node/stores/object-space.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import { runRampart } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import type { LoadBalancer } from "./load-balancer.ts";
import type { Renewals } from "./renewals.ts";
import type { Replica } from "./replica.ts";
import type { SharedService } from "./shared-service.ts";

/** Two replicas of one service, and the workloads that renew. */
export interface Scene {
  readonly service: SharedService;
  readonly replicas: readonly [Replica, Replica];
  readonly balancer: LoadBalancer;
  readonly renewals: Renewals;
}

/** An act of the story, and its name. */
type Act = readonly [string, (scene: Scene) => Promise<void>];

/** The acts in their order. While one replica suffers, the other serves. */
export const acts: readonly Act[] = [
  ["the store's service goes away, and returns", ({ service }) => service.restart()],
  ["the first replica loses the store until it refuses calls", ({ replicas: [a] }) => isolate(a)],
  ["the store answers nobody for a while", ({ replicas }) => partition(replicas)],
  [
    "the first replica is lost, and returns before the store",
    ({ replicas: [a] }) => loseWithItsStore(a),
  ],
  ["an operator taints the authority that signs", taintSigning],
  ["a rolling update", rollingUpdate],
  ["nothing happens", () => sleep(2000)],
];

/** A replica without the store serves what it knows for one propagation interval, and then refuses. */
async function isolate(replica: Replica): Promise<void> {
  replica.link.hold();
  await until(`${replica.name} still serves`, async () => (await replica.bundle()) === undefined);
  assert.equal(await replica.isReady(), false);
  replica.link.mend();
  await until(`${replica.name} is not ready`, replica.isReady);
}

/** Replicas sign without the store, for less than one propagation interval. */
async function partition(replicas: readonly Replica[]): Promise<void> {
  for (const { link } of replicas) link.hold();
  await sleep(5000);
  for (const each of replicas) assert.equal(await each.isReady(), true, each.name);
  for (const { link } of replicas) link.mend();
}

/** A replica that finds no store at its start waits for it, opens no port, and gets no calls. */
async function loseWithItsStore(replica: Replica): Promise<void> {
  await replica.kill();
  replica.link.hold();
  const starting = replica.start();
  await until(`${replica.name} is not alive`, replica.isAlive);
  assert.equal(await replica.isReady(), false);
  replica.link.mend();
  await starting;
  await until(`${replica.name} is not ready`, replica.isReady);
}

/** The records of authorities say in the clear when each signs. */
export async function schedules({
  service,
}: Scene): Promise<readonly (Schedule & { id: string })[]> {
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
    publishedFrom: instant,
    signsFrom: instant,
    signsUntil: instant,
    retiresAt: instant,
  }),
});

/** The successor is in every bundle already, so it signs as soon as a replica learns of the taint. */
async function taintSigning(scene: Scene): Promise<void> {
  const all: (Schedule & { id: string })[] = [];
  await until("no successor is published", async () => {
    all.splice(0, all.length, ...(await schedules(scene)));
    return all.some((each) => Schedule.phaseAt(each, new Date()) === "published");
  });
  const signing = all.findLast((each) => Schedule.phaseAt(each, new Date()) === "signing");
  assert(signing);
  const before = scene.renewals.figures().byAuthority.size;
  const words = ["authority", "taint", signing.id, "--root", "with-last-leaf", "--yes"];
  const { service, replicas } = scene;
  const { environment } = service;
  await runRampart([...words, "--config", replicas[0].configurationFile], { environment });
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
    assert.equal(await replica.drain(), 0);
    await replica.start();
    await until(`${replica.name} is not ready`, replica.isReady);
    balancer.add(replica);
  }
}
