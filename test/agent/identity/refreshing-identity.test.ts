import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RefreshingIdentity } from "../../../src/agent/identity/refreshing-identity.ts";
import { generateSubjectKey } from "../../../src/agent/identity/subject-key.ts";
import { type Issuance, parseIssuance } from "../../../src/agent/identity/x509-svid.ts";
import { IssuanceError } from "../../../src/agent/issuance/issuance-error.ts";
import { TrustRoots } from "../../../src/agent/trust/trust-roots.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/event-recorder.ts";
import { workload } from "../../testkit/pki/certificates.ts";
import { createTestAuthority, type TestAuthority } from "./test-authority.ts";

const spiffeId = workload("foo", "bar");
const root = await createTestAuthority("root");
const successor = await createTestAuthority("successor");
const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
const start = new Date("2026-11-21T12:00:00Z");
const hour = 3_600_000;

/** An identity over a CA and a clock that the test decides about. */
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
  /** While it is set, the CA takes its time. */
  gate: Promise<void> | undefined;
  recalled: Issuance | undefined;
  #underWay = 0;

  constructor(graceRatio = 0.5) {
    this.identity = new RefreshingIdentity(spiffeId, {
      issue: () => this.#issue(),
      trust: this.trust,
      policy: { graceRatio, jitter: 0 },
      clock: () => this.now,
      random: () => 0,
      log: this.log,
      recall: async () => this.recalled,
      remember: async () => undefined,
    });
    this.identity.changes.add(() => this.changes++);
  }

  async issuance(): Promise<Issuance> {
    const notAfter = new Date(this.now.getTime() + this.lifetimeMilliseconds);
    const departures = { notBefore: this.now, notAfter };
    const leaf = await this.signer.issue(spiffeId, key.publicKey, departures);
    return parseIssuance(
      [leaf, this.signer.pem],
      { spiffeId, privateKey: key.privateKey },
      this.now,
    );
  }

  run(): void {
    running.add(this.identity);
    void this.identity.run();
  }

  /** Lets the time pass, as the clock and as the timers have it. */
  async pass(milliseconds: number): Promise<void> {
    for (let left = milliseconds; left > 0; left -= 500) {
      this.now = new Date(this.now.getTime() + Math.min(500, left));
      await vi.advanceTimersByTimeAsync(Math.min(500, left));
      await this.settle();
    }
  }

  /** Waits for what is under way: signing takes real time, of which the clock knows nothing. */
  async settle(): Promise<void> {
    await aTurn();
    while (this.#underWay > 0) await aTurn();
    await aTurn();
  }

  async #issue(): Promise<Issuance> {
    this.calls++;
    await this.gate;
    if (this.outage) throw this.outage;
    this.#underWay++;
    return await this.issuance().finally(() => this.#underWay--);
  }
}

const aTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const running = new Set<RefreshingIdentity>();

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => {
  for (const identity of running) identity.end();
  running.clear();
  vi.useRealTimers();
});

const unreachable = new IssuanceError("authority-unreachable", "away");

test("gets a certificate at once, and another one at half of its life", async () => {
  const bench = new Bench();
  bench.lifetimeMilliseconds = 120_000;
  bench.run();
  await bench.settle();
  expect(bench.calls).toBe(1);
  await bench.pass(59_000);
  expect(bench.calls).toBe(1);
  await bench.pass(2_000);
  expect([bench.calls, bench.changes]).toEqual([2, 2]);
});

test("makes one request for everybody who waits", async () => {
  const bench = new Bench();
  let open = (): void => undefined;
  bench.gate = new Promise((resolve) => {
    open = resolve;
  });
  bench.run();
  const waiting = Promise.all([1, 2, 3].map(() => bench.identity.awaitSvid()));
  await bench.settle();
  open();
  const [first, second] = await waiting;
  expect(bench.calls).toBe(1);
  expect(first).toBe(second);
});

test("keeps what it has while the CA is away, and asks ever more slowly", async () => {
  const bench = new Bench();
  bench.lifetimeMilliseconds = 20 * 60_000;
  bench.run();
  await bench.settle();
  bench.outage = unreachable;
  await bench.pass(19 * 60_000);
  expect(bench.identity.issuance).toBeDefined();
  expect(bench.identity.status.lastError).toBe("away");
  // After 1, 2, 4, … 128 s, then each 150 s: nine minutes of outage are about a dozen requests.
  expect(bench.calls).toBeGreaterThan(8);
  expect(bench.calls).toBeLessThan(15);
  expect(bench.log.operations.at(-1)).toMatchObject({
    event: "renewal-failed",
    hoursLeft: expect.any(Number),
  });
});

test("never shows a certificate that has expired, and recovers by itself", async () => {
  const bench = new Bench();
  bench.lifetimeMilliseconds = 60_000;
  bench.run();
  await bench.settle();
  bench.outage = unreachable;
  await bench.pass(61_000);
  expect(bench.identity.issuance).toBeUndefined();
  await expect(bench.identity.awaitSvid()).rejects.toThrow("away");
  bench.outage = undefined;
  await bench.pass(150_000);
  expect(bench.identity.issuance).toBeDefined();
  expect(bench.identity.status.lastError).toBeUndefined();
});

test("tells who asks while the next attempt is not due what the last one failed of, and asks nobody", async () => {
  const bench = new Bench();
  bench.outage = unreachable;
  bench.run();
  await bench.settle();
  for (let i = 0; i < 5; i++) await expect(bench.identity.awaitSvid()).rejects.toBe(unreachable);
  expect(bench.calls).toBe(1);
});

test("does not ask in a loop for certificates that live shorter than a policy wants", async () => {
  const bench = new Bench(1);
  bench.lifetimeMilliseconds = 60_000;
  bench.run();
  await bench.settle();
  await bench.pass(60_000);
  expect(bench.calls).toBeLessThan(12);
});

test("renews when the clock jumps over the end of the certificate, and does not show it meanwhile", async () => {
  const bench = new Bench();
  bench.run();
  await bench.settle();
  bench.now = new Date(bench.now.getTime() + 48 * hour);
  expect(bench.identity.issuance).toBeUndefined();
  await bench.pass(16_000);
  expect(bench.calls).toBe(2);
  expect(bench.identity.issuance).toBeDefined();
});

test("does not wait a day longer because the clock was set back a day", async () => {
  const bench = new Bench();
  bench.lifetimeMilliseconds = 120_000;
  bench.run();
  await bench.settle();
  bench.now = new Date(bench.now.getTime() - 24 * hour);
  await bench.pass(61_000);
  expect(bench.calls).toBe(2);
});

const bundleOf = (sequence: number, ...authorities: TestAuthority[]) => ({
  sequence,
  refreshSeconds: 300,
  roots: authorities.map(({ certificate }) => certificate),
});

test("leaves an authority that was withdrawn at once", async () => {
  const bench = new Bench();
  bench.run();
  await bench.settle();
  bench.trust.learnBundle(bundleOf(1, root, successor));
  await bench.settle();
  expect(bench.calls).toBe(1);
  bench.signer = successor;
  bench.trust.learnBundle(bundleOf(2, successor));
  await bench.settle();
  expect(bench.calls).toBe(2);
  expect(bench.identity.issuance?.svid.chain[0].issuer).toBe("O=successor");
});

test("does not take what a withdrawn authority still signs, and does not ask in a loop", async () => {
  const bench = new Bench();
  bench.run();
  await bench.settle();
  bench.trust.learnBundle(bundleOf(1, root, successor));
  bench.trust.learnBundle(bundleOf(2, successor));
  await bench.pass(10_000);
  expect(bench.calls).toBeLessThan(8);
  expect(bench.log.operations.at(-1)).toMatchObject({
    event: "renewal-failed",
    fault: "authority-withdrawn",
  });
  // The old one is better than none: some peers have not heard yet.
  expect(bench.identity.issuance).toBeDefined();
});

test("begins with what an earlier run has left, and asks for another when that is due", async () => {
  const bench = new Bench();
  bench.lifetimeMilliseconds = 120_000;
  bench.recalled = await bench.issuance();
  bench.run();
  await bench.settle();
  expect([bench.calls, bench.changes]).toEqual([0, 1]);
  await bench.pass(61_000);
  expect(bench.calls).toBe(1);
});

test("stops when it is told to", async () => {
  const bench = new Bench();
  bench.lifetimeMilliseconds = 60_000;
  const ended = bench.identity.run();
  await bench.settle();
  bench.identity.end();
  await ended;
  await bench.pass(60_000);
  expect(bench.calls).toBe(1);
  expect(vi.getTimerCount()).toBe(0);
});
