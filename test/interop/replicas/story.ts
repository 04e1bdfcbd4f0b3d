import assert from "node:assert/strict";
import { foundIfEmpty, Rotation } from "../../../src/ca/rotation/rotate.ts";
import { CaStores } from "../../../src/config/ca-stores.ts";
import type { AuthorityStore } from "../../../src/custody/authority-store.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { createSharedStore } from "../../../src/node/stores/object-space.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { createMemoryStore } from "../../testkit/ca/memory-store.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { noFetching } from "../../testkit/network/no-fetching.ts";
import { until } from "../../testkit/time/until.ts";
import { acts, type Scene, schedules } from "./acts.ts";
import { startLoadBalancer } from "./load-balancer.ts";
import { type RenewalFigures, Renewals, servedName } from "./renewals.ts";
import { createReplica } from "./replica.ts";
import type { SharedService } from "./shared-service.ts";

/** Short lifetimes, and yet longer than two calls that a replica without its store holds for three seconds each. */
const lifetimes = {
  PROPAGATION_INTERVAL: "20s",
  MAX_WORKLOAD_CERT_TTL: "20s",
  AUTHORITY_LIFETIME: "192s",
};

/** With these lifetimes, the second authority signs about two minutes after the first was founded. */
const foundedSecondsAgo = 110;

const issuer = "https://issuer.example.com";
const workloads = 32;

/**
 * Plays two replicas through everything that may befall them, while workloads renew all the time.
 *
 * @returns The figures of the whole story.
 */
export async function playReplicaStory(service: SharedService, folder: string): Promise<string> {
  await using cleanup = new AsyncDisposableStack();
  const scene = await setScene(service, folder, cleanup);
  try {
    for (const [name, play] of acts) {
      await play(scene);
      console.log(`        ${name}: ${scene.renewals.figures().renewals} renewals so far`);
    }
    const records = await endOnSameRecords(scene);
    await scene.renewals.stop();
    const figures = scene.renewals.figures();
    requireNoFailure(figures);
    requireNoDefect(scene.replicas);
    return `${figures.renewals} renewals, 0 failed; ${records}`;
  } finally {
    const { failedAttempts } = scene.renewals.figures();
    for (const each of failedAttempts) console.log(`        attempts that failed: ${each.join()}`);
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
  const configuration = ServeConfiguration.parse(whole, service.environment);
  await seedHistory(configuration, store, founded);
  const replicas = [
    await createReplica("a", folder, service, keys),
    await createReplica("b", folder, service, keys),
  ] as const;
  for (const each of replicas) cleanup.defer(each.end);
  await Promise.all(replicas.map((each) => each.start()));
  const balancer = await startLoadBalancer(replicas);
  cleanup.defer(balancer.end);
  const renewals = new Renewals({
    port: balancer.port,
    replicas,
    count: workloads,
    token: (account) => mintAccountToken(key, issuer, account, new Date()),
    roots: (await replicas[0].bundle()) ?? "",
  });
  cleanup.defer(() => renewals.stop());
  return { service, replicas: [...replicas], balancer, renewals };
}

/** Both replicas publish the same, and no two authorities were minted at once. */
async function endOnSameRecords(scene: Scene): Promise<string> {
  let bundles: readonly (string | undefined)[] = [];
  await until("the replicas publish different bundles", async () => {
    bundles = await Promise.all(scene.replicas.map(({ bundle }) => bundle()));
    return bundles[0] !== undefined && bundles[0] === bundles[1];
  });
  const published = (await schedules(scene)).map(({ publishedFrom }) => publishedFrom.getTime());
  const apart = published.slice(1).map((at, i) => (at - (published[i] ?? 0)) / 1000);
  assert(Math.min(...apart) > 60, `two replicas have minted at once: ${apart}`);
  const roots = (bundles[0] ?? "").split("BEGIN CERTIFICATE").length - 1;
  return `both end on ${published.length} authorities and a bundle of ${roots} roots`;
}

function requireNoFailure(figures: RenewalFigures): void {
  const { renewals, failed, expired, unverified, byAuthority } = figures;
  assert.deepEqual([...new Set(unverified)], []);
  assert.equal(failed, 0, `${failed} renewals failed`);
  assert.equal(expired, 0, `${expired} certificates ended before the next`);
  assert(renewals > 4 * workloads, `only ${renewals} renewals`);
  assert(byAuthority.size >= 3, "three authorities sign in turn");
}

/** The events of a defect of the program, or of a record that it cannot read. */
const defect = /"event":"(?:fault|http-fault|record-refused)"/;

function requireNoDefect(replicas: Scene["replicas"]): void {
  const lines = replicas.flatMap((each) => each.lines());
  assert.deepEqual(lines.filter((line) => defect.test(line)).slice(0, 5), []);
}

/**
 * Fills a store with the records of a CA that was founded some time ago and has rotated since, so that a story
 * need not wait for the first certificate, and begins where its schedule is eventful.
 */
async function seedHistory(
  { ca }: ServeConfiguration,
  store: AuthorityStore,
  founded: Date,
): Promise<void> {
  const [memory, now] = [createMemoryStore(), new Date()];
  const log = createEventRecorder();
  const platform = {
    store: memory,
    log,
    fetching: noFetching,
    cryptoProvider: nodeCryptoProvider,
    clock: () => now,
  };
  const { mint } = CaStores.mints(await CaStores.open(ca, platform), ca, platform);
  await foundIfEmpty(mint, founded);
  for (let at = founded; at < now; at = addSeconds(at, 2)) await Rotation.rotate(mint, at);
  for (const record of await memory.load()) await store.put(record);
}
