import { describe, expect, test } from "vitest";
import type { PlatformKeys } from "../../../src/config/platform-keys.ts";
import { Kek } from "../../../src/custody/kek.ts";
import { KekLease } from "../../../src/custody/key-service/kek-lease.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { sharePromises } from "../../../src/node/limits/promise-sharing.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { createMemoryStore, type MemoryStore } from "../../testkit/ca/memory-store.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import { issuer, randomKek } from "../../testkit/configuration.ts";
import { awsFault } from "../../testkit/key-services/aws-kms.ts";
import { type PlayedKek, playWrappedKek } from "../../testkit/key-services/wrapped-kek.ts";

const hour = 3600;

/** A CA whose KEK a service opens, and the renewals that go on beside its calls. */
async function start(kek: PlayedKek, values: object = {}, store = createMemoryStore()) {
  const renewals: Promise<void>[] = [];
  let clock = (): Date => new Date("2026-11-21T12:00:00.250Z");
  const ca = await startCa(
    { KEK: kek.value, ...values },
    {
      store,
      keyCustody: kek.keyCustodyAt(() => clock()),
      inBackground: (work) => void renewals.push(work),
    },
  );
  clock = ca.now;
  return { ...ca, store, settle: () => Promise.all(renewals.splice(0)) };
}

/** A CA that has its first authority, and who signs in it. */
async function founded(playing: PlayedKek | Promise<PlayedKek> = playWrappedKek()) {
  const kek = await playing;
  const ca = await start(kek);
  await ca.found();
  return { ...ca, service: kek.service, signer: await signerIn(ca) };
}

const signerIn = async ({ certificateAuthority, now }: RunningCa): Promise<string | undefined> =>
  (await certificateAuthority.issuance.authorities.at(now())).issuer?.authority.id;

const refusalOf = (ca: RunningCa): Promise<unknown> =>
  signerIn(ca).catch((error: unknown) => (error instanceof CaError ? error.refusal.reason : error));

const readinessOf = async ({ app }: RunningCa) => {
  const response = await app.request("/readyz");
  return { status: response.status, said: JSON.stringify(await response.json()) };
};

test("a start opens the KEK once, and no call asks again while the lease is young", async () => {
  const ca = await founded();
  expect(ca.signer).toBeDefined();
  for (let i = 0; i < 5; i++) {
    ca.pass(60);
    await signerIn(ca);
  }
  expect(ca.service.asked).toEqual(["Decrypt"]);
});

test("the octets that a service opens are overwritten once the KEK is imported", async () => {
  const kek = await playWrappedKek();
  const opened: Uint8Array[] = [];
  const keyCustodyAt: PlayedKek["keyCustodyAt"] = (clock) => {
    const custody = kek.keyCustodyAt(clock);
    const keyServices: typeof custody.keyServices = (uri) => {
      const key = custody.keyServices(uri);
      const unwrap: typeof key.unwrap = async (...wrapped) => {
        const octets = await key.unwrap(...wrapped);
        opened.push(octets);
        return octets;
      };
      return { ...key, unwrap };
    };
    return { ...custody, keyServices };
  };
  expect((await founded({ ...kek, keyCustodyAt })).signer).toBeDefined();
  expect(opened).toEqual([new Uint8Array(32)]);
});

test("it is opened again long before the lease ends, and no call waits for that", async () => {
  const ca = await founded();
  ca.pass(hour / 2);
  ca.service.conduct = "hangs";
  expect(await signerIn(ca)).toBe(ca.signer);
  ca.service.conduct = "works";
  await ca.settle();
  ca.pass(60);
  await signerIn(ca);
  await ca.settle();
  ca.pass(hour - 120);
  expect(await signerIn(ca)).toBe(ca.signer);
});

test("an outage shorter than the lease fails no call, and is told", async () => {
  const ca = await founded();
  ca.service.conduct = "is away";
  for (let i = 0; i < 11; i++) {
    ca.pass(300);
    expect(await signerIn(ca)).toBe(ca.signer);
    await ca.settle();
  }
  const { status, said } = await readinessOf(ca);
  expect([status, said]).toEqual([200, expect.stringContaining("awskms did not answer")]);
  expect(said).not.toContain("arn:");
  const told = ca.log.operations.filter(({ event }) => event === "kek-unavailable");
  expect(told[0]).toMatchObject({ level: "warning", heldUntil: "2026-11-21T13:00:00.250Z" });
  expect(told[0]?.detail).toContain("arn:");
  ca.service.conduct = "works";
  // While the lease lasts it is asked again within half a minute.
  ca.pass(30);
  await signerIn(ca);
  await ca.settle();
  expect((await readinessOf(ca)).said).not.toContain("did not answer");
  ca.pass(hour / 2);
  expect(await signerIn(ca)).toBe(ca.signer);
});

describe("beyond the lease", () => {
  test("every call is refused, and the next one after the outage is answered", async () => {
    const ca = await founded();
    ca.service.fault = awsFault("DisabledException");
    ca.pass(hour);
    expect(await refusalOf(ca)).toBe("kek-unavailable");
    const told = ca.log.operations.findLast(({ event }) => event === "kek-unavailable");
    expect(told).toMatchObject({ level: "error" });
    const { status, said } = await readinessOf(ca);
    expect([status, said]).toEqual([503, expect.stringContaining("awskms has disabled the key")]);
    expect(said).not.toContain("arn:");
    await expect(ca.rotate()).rejects.toThrow("has disabled the key");
    ca.service.fault = undefined;
    ca.pass(2);
    expect(await signerIn(ca)).toBe(ca.signer);
  });

  test("refused calls ask the service no more often than every other second", async () => {
    const kek = await playWrappedKek();
    const ca = await start(kek);
    kek.service.fault = awsFault("ThrottlingException");
    for (let i = 0; i < 20; i++) expect(await refusalOf(ca)).toBe("kek-unavailable");
    expect(kek.service.asked).toHaveLength(1);
  });

  test("nothing seals, and no statement is believed, by a KEK that was held", async () => {
    const ca = await founded();
    ca.pass(hour);
    const [held] = ca.mint.keks;
    expect(() => held.key).toThrow("the KEK is not open");
    expect(() => held.statementKey).toThrow("the KEK is not open");
  });

  test("a clock that is set back makes no lease longer", async () => {
    const ca = await founded();
    ca.service.conduct = "is away";
    ca.pass(-2 * hour);
    expect(await refusalOf(ca)).toBe("kek-unavailable");
  });
});

test("a lease that has ended stays ended when the clock is set back, and the next call asks again", async () => {
  const ca = await founded();
  ca.service.conduct = "is away";
  ca.pass(hour);
  expect(await refusalOf(ca)).toBe("kek-unavailable");
  ca.pass(-hour / 2);
  expect(await refusalOf(ca)).toBe("kek-unavailable");
  ca.service.conduct = "works";
  ca.pass(hour / 2);
  expect(await signerIn(ca)).toBe(ca.signer);
  ca.service.conduct = "is away";
  ca.pass(2 * hour);
  expect(await refusalOf(ca)).toBe("kek-unavailable");
  ca.service.conduct = "works";
  ca.pass(-hour);
  expect(await signerIn(ca)).toBe(ca.signer);
});

describe("by a monotonic clock", () => {
  /** A CA with a lease of an hour, whose wall and monotonic clock are moved apart. */
  async function startApart(random = 0) {
    let elapsed = 0;
    const kek = await playWrappedKek();
    const keyCustodyAt: PlayedKek["keyCustodyAt"] = (clock) => {
      const lease: PlatformKeys["lease"] = (parts) =>
        new KekLease({ ...parts, monotonic: () => elapsed, random: () => random });
      return { ...kek.keyCustodyAt(clock), lease };
    };
    const ca = await founded({ ...kek, keyCustodyAt });
    const spend = (seconds: number, ofWall = seconds): void => {
      elapsed += 1000 * seconds;
      ca.pass(ofWall);
    };
    return { ca, spend };
  }

  test("a lease ends in its time, however often the clock is set back within it", async () => {
    const { ca, spend } = await startApart();
    ca.service.conduct = "is away";
    for (let i = 0; i < 10; i++) {
      spend(354, i % 5 === 4 ? -20 * 60 : 354);
      expect(await signerIn(ca)).toBeDefined();
      await ca.settle();
    }
    spend(60);
    expect(await refusalOf(ca)).toBe("kek-unavailable");
    ca.service.conduct = "works";
    spend(30);
    expect(await signerIn(ca)).toBeDefined();
  });

  test("a lease ends by the clock where the monotonic one slept with the machine", async () => {
    const { ca, spend } = await startApart();
    ca.service.conduct = "is away";
    spend(60, hour);
    expect(await refusalOf(ca)).toBe("kek-unavailable");
  });

  test.each([
    [0, 1],
    [0.99, 2],
  ])("chance (%d) takes up to a quarter of the pause before a renewal", async (random, asked) => {
    const { ca, spend } = await startApart(random);
    spend(300);
    await signerIn(ca);
    await ca.settle();
    expect(ca.service.asked).toHaveLength(asked);
  });
});

test("a start in an outage refuses, and serves once the service answers", async () => {
  const kek = await playWrappedKek();
  const store = createMemoryStore();
  await (await start(kek, {}, store)).found();
  kek.service.conduct = "is away";
  const ca = await start(kek, {}, store);
  expect(await refusalOf(ca)).toBe("kek-unavailable");
  kek.service.conduct = "works";
  ca.pass(2);
  expect(await signerIn(ca)).toBeDefined();
});

test("the KEKs of named signers are derived in the same opening", async () => {
  const kek = await playWrappedKek();
  const ca = await start(kek, {
    SIGNERS: [{ name: "team-a", callers: [{ issuer }], inception_date: "2026-11-21" }],
  });
  await ca.rotate();
  ca.pass(91 * 24 * hour);
  await ca.rotate();
  expect(kek.service.asked).toEqual(["Decrypt", "Decrypt"]);
  const signer = ca.signerMints.get("team-a");
  expect((await ca.signerStores.get("team-a")?.load())?.length).toBeGreaterThan(0);
  kek.service.conduct = "is away";
  ca.pass(hour);
  expect(() => signer?.keks[0].key).toThrow("the KEK is not open");
});

describe("moves", () => {
  const idsOf = (store: MemoryStore): Promise<string[]> =>
    store.load().then((all) => all.map(({ value }) => JSON.parse(value).kek as string));

  test("the same KEK, wrapped: its records open as they are, and back", async () => {
    const kek = await playWrappedKek();
    const store = createMemoryStore();
    const plain = `k1:${Buffer.from(kek.octets).toString("base64")}`;
    const before = await startCa({ KEK: plain }, { store });
    await before.found();
    const signer = await signerIn(before);
    expect(await signerIn(await start(kek, {}, store))).toBe(signer);
    expect(await signerIn(await startCa({ KEK: plain }, { store }))).toBe(signer);
  });

  test("a new KEK takes the place of one without a service, and back, without a gap", async () => {
    const kek = await playWrappedKek();
    const store = createMemoryStore();
    const old = randomKek("old");
    const before = await startCa({ KEK: old }, { store });
    await before.found();
    // It would write records of the first KEK.
    store.everyOther = undefined;
    const signer = await signerIn(before);
    for (const [KEK, sealing] of [
      [`${old},${kek.value}`, "old"],
      [`${kek.value},${old}`, "k1"],
      [kek.value, "k1"],
      [`${old},${kek.value}`, "old"],
      [old, "old"],
    ]) {
      const ca = await start(kek, { KEK }, store);
      expect(await signerIn(ca)).toBe(signer);
      await ca.rotate();
      expect(await signerIn(ca)).toBe(signer);
      expect(new Set(await idsOf(store))).toEqual(new Set([sealing]));
    }
  });
});

test("without key services, a configuration that names one is refused", async () => {
  const kek = await playWrappedKek();
  await expect(startCa({ KEK: kek.value })).rejects.toThrow(
    "KEK: k1 rests in a key service, which needs main = src/worker/main-with-keys.ts",
  );
});

const octets = (fill: number) => new Uint8Array(32).fill(fill);
const keks = [
  { id: "k2", octets: octets(2) },
  { id: "k1", octets: octets(1) },
];
const now = new Date("2026-11-21T12:00:00Z");

/** The lease of KEKs that no service has to open. */
const leaseOf = (parts: Partial<ConstructorParameters<typeof KekLease>[0]> = {}): KekLease =>
  new KekLease({
    keks,
    signers: ["a", "b"],
    trustDomain: clusterLocal,
    leaseSeconds: hour,
    keyServices: () => {
      throw new Error("nobody is asked");
    },
    clock: () => now,
    monotonic: () => 0,
    random: () => 0,
    log: { operation: () => {} },
    shareWork: sharePromises,
    ...parts,
  });

test("one call alone waits for a renewal where work ends with its call", async () => {
  const lease = leaseOf();
  await lease.hold(now);
  const due = addSeconds(now, hour / 2);
  const renewal = lease.hold(due);
  expect([renewal, lease.hold(due)]).toEqual([expect.any(Promise), undefined]);
  await renewal;
});

test("a renewal in the background that finds no place ends nothing", async () => {
  const renewals: Promise<void>[] = [];
  let isFull = false;
  const lease = leaseOf({
    inBackground: (work) => void renewals.push(work),
    shareWork: (...of) => {
      const shared = sharePromises(...of);
      const join: typeof shared.join = (work) =>
        isFull ? Promise.reject(new Error("full")) : shared.join(work);
      return { join };
    },
  });
  await lease.hold(now);
  isFull = true;
  expect(lease.hold(addSeconds(now, hour / 2))).toBeUndefined();
  await expect(Promise.all(renewals)).resolves.toHaveLength(1);
});

test("each signer has KEKs of its own, and each of two KEKs its own in each signer", async () => {
  const lease = leaseOf();
  await lease.hold(now);
  const macOf = async ({ statementKey }: Pick<Kek, "statementKey">): Promise<string> =>
    new Uint8Array(await crypto.subtle.sign("HMAC", statementKey, octets(0))).join();
  const macs: string[] = [];
  for (const signer of ["", "a", "b"]) {
    const held = await Promise.all(lease.ring(signer).map(macOf));
    const derived = await Promise.all(
      keks.map(async (kek) => macOf(await Kek.import(kek.id, kek.octets, signer || undefined))),
    );
    expect(held).toEqual(derived);
    macs.push(...held);
  }
  expect(new Set(macs).size).toBe(6);
});
