import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { hoursUntil, RefreshingIdentity } from "../../../src/agent/identity/refreshing-identity.ts";
import {
  type CaAnswer,
  generateSubjectKey,
  IssuanceError,
  parseAnswer,
} from "../../../src/agent/identity/x509-svid.ts";
import { TrustRoots } from "../../../src/agent/trust/trust-roots.ts";
import {
  bundleOf,
  createTestAuthority,
  type TestAuthority,
} from "../../testkit/agent/test-authority.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/log/event-recorder.ts";
import { workload } from "../../testkit/pki/certificates.ts";

const spiffeId = workload("foo", "bar");
const root = await createTestAuthority("root");
const successor = await createTestAuthority("successor");
const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
const start = new Date("2026-11-21T12:00:00Z");
const hour = 3_600_000;

/** An identity whose CA and clock the test controls. */
class Bench {
  readonly trust = new TrustRoots();
  readonly log: EventRecorder = createEventRecorder();
  readonly identity: RefreshingIdentity;
  now: Date = start;
  calls = 0;
  changes = 0;
  signer: TestAuthority = root;
  lifetimeMilliseconds: number = 24 * hour;
  outage: Error | undefined;
  /** While it is pending, the CA does not answer. */
  gate: Promise<void> | undefined;
  cached: CaAnswer | undefined;
  storing: Promise<void> = Promise.resolve();
  #signing = 0;

  constructor(graceRatio = 0.5) {
    this.identity = new RefreshingIdentity(spiffeId, {
      issue: () => this.#issue(),
      trust: this.trust,
      policy: { graceRatio, jitter: 0 },
      clock: () => this.now,
      random: () => 0,
      log: this.log,
      load: async () => this.cached,
      store: () => this.storing,
    });
    this.identity.changes.add(() => this.changes++);
  }

  async answer(): Promise<CaAnswer> {
    const notAfter = new Date(this.now.getTime() + this.lifetimeMilliseconds);
    const overrides = { notBefore: this.now, notAfter };
    const leaf = await this.signer.issue(spiffeId, key.publicKey, overrides);
    return parseAnswer([leaf, this.signer.pem], { spiffeId, privateKey: key.privateKey }, this.now);
  }

  run(): void {
    running.add(this.identity);
    void this.identity.run();
  }

  /** Advances the clock and the timers together. */
  async pass(milliseconds: number): Promise<void> {
    for (let left = milliseconds; left > 0; left -= 500) {
      this.now = new Date(this.now.getTime() + Math.min(500, left));
      await vi.advanceTimersByTimeAsync(Math.min(500, left));
      await this.settle();
    }
  }

  /** Waits for pending signatures: they take real time, during which the test's clock stands still. */
  async settle(): Promise<void> {
    await nextTurn();
    while (this.#signing > 0) await nextTurn();
    await nextTurn();
  }

  async #issue(): Promise<CaAnswer> {
    this.calls++;
    await this.gate;
    if (this.outage) throw this.outage;
    this.#signing++;
    return await this.answer().finally(() => this.#signing--);
  }
}

/** A bench whose identity has its first certificate. */
async function runningBench(lifetimeMilliseconds: number = 24 * hour): Promise<Bench> {
  const bench = new Bench();
  bench.lifetimeMilliseconds = lifetimeMilliseconds;
  bench.run();
  await bench.settle();
  return bench;
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const running = new Set<RefreshingIdentity>();

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => {
  for (const identity of running) identity.end();
  running.clear();
  vi.useRealTimers();
});

const unreachable = new IssuanceError("authority-unreachable", "away");

test("gets a certificate at once, and the next one at half of its life", async () => {
  const bench = await runningBench(120_000);
  expect(bench.calls).toBe(1);
  await bench.pass(59_000);
  expect(bench.calls).toBe(1);
  await bench.pass(2_000);
  expect([bench.calls, bench.changes]).toEqual([2, 2]);
});

test("makes one request for all waiting callers", async () => {
  const bench = new Bench();
  const answering = Promise.withResolvers<void>();
  bench.gate = answering.promise;
  bench.run();
  const waiting = Promise.all([1, 2, 3].map(() => bench.identity.awaitSvid()));
  await bench.settle();
  answering.resolve();
  const [first, second] = await waiting;
  expect(bench.calls).toBe(1);
  expect(first).toBe(second);
});

test("does not ask again before the time for which the CA has asked", async () => {
  const bench = new Bench();
  bench.outage = new IssuanceError("authority-unreachable", "later", undefined, 20);
  bench.run();
  await bench.settle();
  await bench.pass(19_500);
  expect(bench.calls).toBe(1);
  await bench.pass(1_000);
  expect(bench.calls).toBe(2);
});

test("does not let the CA delay the renewal of a short certificate to its end", async () => {
  const bench = await runningBench(120_000);
  bench.outage = new IssuanceError("authority-unreachable", "later", undefined, 99_999);
  await bench.pass(60_500);
  expect(bench.calls).toBe(2);
  await bench.pass(6_500);
  expect(bench.calls).toBe(3);
  expect(bench.identity.svid).toBeDefined();
});

test("keeps its certificate while the CA is unreachable, and asks ever more slowly", async () => {
  const bench = await runningBench(20 * 60_000);
  bench.outage = unreachable;
  await bench.pass(19 * 60_000);
  expect(bench.identity.svid).toBeDefined();
  expect(bench.identity.status.lastError).toBe("away");
  // Waits of 1, 2, 4, … 128 s, then of 150 s, make about a dozen requests in nine minutes.
  expect(bench.calls).toBeGreaterThan(8);
  expect(bench.calls).toBeLessThan(15);
  expect(bench.log.operations.at(-1)).toMatchObject({
    event: "renewal-failed",
    hoursLeft: expect.any(Number),
  });
});

test("never serves an expired certificate, and recovers by itself", async () => {
  const bench = await runningBench(60_000);
  bench.outage = unreachable;
  await bench.pass(61_000);
  expect(bench.identity.svid).toBeUndefined();
  await expect(bench.identity.awaitSvid()).rejects.toThrow("away");
  bench.outage = undefined;
  await bench.pass(150_000);
  expect(bench.identity.svid).toBeDefined();
  expect(bench.identity.status.lastError).toBeUndefined();
});

test("rejects with the last error while the next attempt is not due, and does not ask the CA", async () => {
  const bench = new Bench();
  bench.outage = unreachable;
  bench.run();
  await bench.settle();
  for (let i = 0; i < 5; i++) await expect(bench.identity.awaitSvid()).rejects.toBe(unreachable);
  expect(bench.calls).toBe(1);
});

test("does not ask in a loop when a policy leaves nothing of a certificate's life", async () => {
  const bench = new Bench(1);
  bench.lifetimeMilliseconds = 60_000;
  bench.run();
  await bench.settle();
  await bench.pass(60_000);
  expect(bench.calls).toBeLessThan(12);
});

test("renews when the clock jumps past the end of the certificate, which it does not serve meanwhile", async () => {
  const bench = await runningBench();
  bench.now = new Date(bench.now.getTime() + 48 * hour);
  expect(bench.identity.svid).toBeUndefined();
  await bench.pass(16_000);
  expect(bench.calls).toBe(2);
  expect(bench.identity.svid).toBeDefined();
});

test("does not wait a day longer because the clock was set back a day", async () => {
  const bench = await runningBench(120_000);
  bench.now = new Date(bench.now.getTime() - 24 * hour);
  await bench.pass(61_000);
  expect(bench.calls).toBe(2);
});

test("renews at once when the clock was set back before its certificate, and says so until then", async () => {
  const bench = await runningBench();
  expect(bench.identity.fault).toBeUndefined();
  bench.now = new Date(bench.now.getTime() - 2 * hour);
  expect(bench.identity.fault).toContain("the clock was set back");
  bench.outage = unreachable;
  await bench.pass(16_000);
  expect(bench.identity.fault).toMatch(/the clock was set back; away$/);
  bench.outage = undefined;
  await bench.pass(5_000);
  expect(bench.identity.fault).toBeUndefined();
  const { calls } = bench;
  await bench.pass(60_000);
  expect(bench.calls).toBe(calls);
});

test("says each reason for which peers refuse its certificate, and none that has passed", async () => {
  const bench = await runningBench();
  bench.outage = unreachable;
  bench.trust.updateFromBundle(bundleOf(1, successor));
  await bench.settle();
  bench.identity.renewIf(() => true, "certificate-revoked");
  expect(bench.identity.fault).toContain("its root was withdrawn, it is revoked");
  bench.identity.renewIf(() => false, "certificate-revoked");
  expect(bench.identity.fault).toContain("its root was withdrawn");
  expect(bench.identity.fault).not.toContain("revoked");
  bench.trust.updateFromBundle(bundleOf(2, root, successor));
  await bench.settle();
  expect(bench.identity.fault).toBeUndefined();
});

test("renews at once when its authority is withdrawn", async () => {
  const bench = await runningBench();
  bench.trust.updateFromBundle(bundleOf(1, root, successor));
  await bench.settle();
  expect(bench.calls).toBe(1);
  bench.signer = successor;
  bench.trust.updateFromBundle(bundleOf(2, successor));
  await bench.settle();
  expect(bench.calls).toBe(2);
  expect(bench.log.operations).toContainEqual({
    event: "authority-withdrawn",
    level: "warning",
    spiffeId,
  });
  expect(bench.identity.svid?.chain[0].issuer).toBe("O=successor");
});

test("renews once for what is withdrawn while it renews, in its time in an outage, and at once after it", async () => {
  const bench = await runningBench(120_000);
  const answering = Promise.withResolvers<void>();
  bench.gate = answering.promise;
  await bench.pass(60_500);
  bench.identity.renewIf(() => true, "certificate-revoked");
  answering.resolve();
  await bench.settle();
  expect([bench.calls, bench.identity.fault]).toEqual([2, undefined]);
  bench.outage = unreachable;
  await bench.pass(60_500);
  bench.identity.renewIf(() => true, "certificate-revoked");
  await bench.settle();
  expect(bench.calls).toBe(3);
  bench.outage = undefined;
  await bench.pass(5_000);
  const { calls } = bench;
  bench.identity.renewIf(() => true, "certificate-revoked");
  await bench.settle();
  expect(bench.calls).toBe(calls + 1);
});

test("refuses what a withdrawn authority still signs, and does not ask in a loop", async () => {
  const bench = await runningBench();
  bench.trust.updateFromBundle(bundleOf(1, root, successor));
  bench.trust.updateFromBundle(bundleOf(2, successor));
  await bench.pass(10_000);
  expect(bench.calls).toBeLessThan(8);
  expect(bench.log.operations.at(-1)).toMatchObject({
    event: "renewal-failed",
    fault: "authority-withdrawn",
  });
  // Peers that have not heard of the withdrawal still accept the old certificate.
  expect(bench.identity.svid).toBeDefined();
  expect(bench.identity.fault).toMatch(/^peers refuse the certificate: its root was withdrawn; /);
  bench.signer = successor;
  await bench.pass(30_000);
  expect(bench.identity.fault).toBeUndefined();
});

test("begins with the cached certificate, and renews it when that is due", async () => {
  const bench = new Bench();
  bench.lifetimeMilliseconds = 120_000;
  bench.cached = await bench.answer();
  bench.run();
  await bench.settle();
  expect([bench.calls, bench.changes]).toEqual([0, 1]);
  expect(bench.trust.current).toHaveLength(1);
  await bench.pass(61_000);
  expect(bench.calls).toBe(1);
});

test.each([
  [undefined, 0],
  [new Date(start.getTime() - hour), 0],
  [new Date(start.getTime() + 1.5 * hour), 1.5],
])("until %o there are %d hours", (notAfter, hours) => {
  expect(hoursUntil(notAfter, start)).toBe(hours);
});

test("stops at its end once its certificate is stored, and leaves no timer", async () => {
  const bench = new Bench();
  bench.lifetimeMilliseconds = 60_000;
  const stored = Promise.withResolvers<void>();
  bench.storing = stored.promise;
  const ended = bench.identity.run().then(() => "ended");
  await bench.settle();
  // What another file has left behind in this process may have timers too.
  const timers = vi.getTimerCount();
  bench.identity.end();
  expect(await Promise.race([ended, bench.settle()])).toBeUndefined();
  stored.resolve();
  await ended;
  bench.trust.updateFromBundle(bundleOf(1, successor));
  expect(bench.log.operations.map(({ event }) => event)).toEqual(["certificate-obtained"]);
  expect(vi.getTimerCount()).toBe(timers - 1);
  await bench.pass(60_000);
  expect(bench.calls).toBe(1);
});
