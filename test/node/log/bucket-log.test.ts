import { describe, expect, onTestFinished, test } from "vitest";
import type { KekRing } from "../../../src/custody/kek.ts";
import { FetchError } from "../../../src/foundation/fetch.ts";
import type { Pause } from "../../../src/foundation/pause.ts";
import { FairQueue } from "../../../src/node/limits/fair-queue.ts";
import { Turn } from "../../../src/node/limits/turn.ts";
import { BucketLog, bucketObjects, openBucketLog } from "../../../src/node/log/bucket-log.ts";
import type { ConditionalObjects } from "../../../src/node/log/object-stage.ts";
import { ObjectReader } from "../../../src/tlog/extend.ts";
import { Frontier } from "../../../src/tlog/frontier.ts";
import { openCheckpointText } from "../../../src/tlog/note/checkpoint.ts";
import { VerifierKey } from "../../../src/tlog/note/verifier-key.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { createKek } from "../../testkit/pki/sealed-record.ts";
import { startS3Api } from "../../testkit/stores/s3-api.ts";
import { logConfiguration } from "../../testkit/tlog/log-configuration.ts";

type Octets = Uint8Array<ArrayBuffer>;

const kek = await createKek("k1");
const day = "2026-11-21";
const configuration = logConfiguration({ origin: "log.test/2026", inceptionDate: day });
const text = (octets: Uint8Array): string => new TextDecoder().decode(octets);
const entryOf = (words: string): Octets => new TextEncoder().encode(words);

/** A bucket in memory. Each request takes a turn of the event loop, so that instances overtake each other. */
class MemoryBucket implements ConditionalObjects {
  readonly objects = new Map<string, { octets: Octets; version: string }>();
  /** How many writes succeed before the process that writes is killed; the last one may take effect all the same. */
  left = Number.POSITIVE_INFINITY;
  lastTakesEffect = false;
  /** The paths of writes in their order. */
  readonly written: string[] = [];
  #count = 0;

  read = async (path: string): Promise<{ octets: Octets; version: string } | undefined> => {
    await new Promise(setImmediate);
    return this.objects.get(path);
  };

  write = async (
    path: string,
    octets: Octets,
    version: string | undefined,
  ): Promise<string | undefined> => {
    await new Promise(setImmediate);
    this.left--;
    if (this.left < 0 || (this.left === 0 && !this.lastTakesEffect)) throw new Error("killed");
    if (this.objects.get(path)?.version !== version) return undefined;
    const next = `v${++this.#count}`;
    this.objects.set(path, { octets: octets.slice(), version: next });
    this.written.push(path);
    if (this.left === 0) throw new Error("killed");
    return next;
  };
}

const partsOn = (today: string, pause: Pause = () => new Promise(setImmediate)) => ({
  configuration,
  trustDomain: clusterLocal,
  keks: { hold: () => undefined, ring: (): KekRing => [kek] },
  log: createEventRecorder(),
  clock: () => new Date(`${today}T12:00:00Z`),
  pause,
});

const instance = (bucket: MemoryBucket, ...parts: [today?: string, pause?: Pause]): BucketLog => {
  const [today = day, pause] = parts;
  return new BucketLog({ objects: bucket, ...partsOn(today, pause) });
};

const { signal } = new AbortController();
const append = ({ issuanceLog }: BucketLog, words: string) =>
  issuanceLog.append(entryOf(words), signal);

/** The published entries, verified as any reader does. */
async function published({ publishedLog }: BucketLog): Promise<string[]> {
  const [shard] = await publishedLog.shards();
  const read = (path: string) => publishedLog.read("0", path);
  const checkpoint = text((await read("checkpoint")) ?? entryOf(""));
  const opened = await openCheckpointText(checkpoint, VerifierKey.parse(shard?.verifierKey ?? ""));
  const entries: string[] = [];
  await ObjectReader.extend(Frontier.empty(), opened, read, (_, octets) =>
    entries.push(text(octets)),
  );
  return entries;
}

describe("a log in a bucket", () => {
  test("grows while several instances publish it", async () => {
    const bucket = new MemoryBucket();
    const instances = Array.from({ length: 4 }, () => instance(bucket));
    const work = instances.flatMap((each, i) =>
      Array.from({ length: 20 }, async (_, n) => {
        await append(each, `${i}/${n}`);
        if (n % 3 === i % 3) await each.publish();
      }),
    );
    await Promise.all(work);
    await instance(bucket).publish();
    const entries = await published(instance(bucket));
    expect(new Set(entries).size).toBe(80);
    expect(entries).toHaveLength(80);
  });

  test("begins though its bucket is away, and publishes at its end what is left", async () => {
    const bucket = new MemoryBucket();
    const { read } = bucket;
    bucket.read = () => Promise.reject(new FetchError("did not answer"));
    const untilEnd: Pause = (_, ending) =>
      new Promise((resolve) => ending?.addEventListener("abort", () => resolve()));
    const log = instance(bucket, day, untilEnd);
    const end = await log.begin();
    bucket.read = read;
    await append(log, "first");
    await end();
    expect(await published(instance(bucket))).toEqual(["first"]);
  });

  test("is written once for callers who ask again as soon as they are answered", async () => {
    const bucket = new MemoryBucket();
    const untilAborted: Pause = (_, ending) =>
      new Promise((resolve) => ending?.addEventListener("abort", () => resolve()));
    const one = instance(bucket, day, untilAborted);
    await append(one, "first");
    bucket.written.length = 0;
    const rounds = 5;
    const caller = async (_: unknown, n: number): Promise<void> => {
      for (let i = 0; i < rounds; i++) await append(one, `entry ${n}/${i}`);
    };
    await Promise.all(Array.from({ length: 20 }, caller));
    expect(bucket.written).toHaveLength(rounds);
  });

  test("is awaited by a request that leaves its turn to others", async () => {
    const bucket = new MemoryBucket();
    const one = instance(bucket);
    await append(one, "first");
    const limits = { underWay: 1, underWayPerAddress: 1, waiting: 9, waitingPerAddress: 9 };
    const queue = new FairQueue(() => ({
      ...limits,
      inOneTick: { all: 9, address: 9 },
      timeLimit: 1000,
    }));
    const [mine, other] = [new Turn(queue, "192.0.2.1"), new Turn(queue, "192.0.2.1")];
    bucket.written.length = 0;
    await mine.take();
    const appending = mine.run(() => append(one, "second"));
    await other.take();
    expect(bucket.written).toEqual([]);
    other.yield();
    await appending;
    expect(mine.isHeld).toBe(true);
  });

  test("is awaited by few requests at once that have left their turns, gone callers among them", async () => {
    const bucket = new MemoryBucket();
    await append(instance(bucket), "first");
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const write: ConditionalObjects["write"] = async (path, octets, version) => {
      await held;
      return bucket.write(path, octets, version);
    };
    const one = new BucketLog({ objects: { read: bucket.read, write }, ...partsOn(day) });
    const queue = new FairQueue(() => ({
      underWay: 1,
      underWayPerAddress: 1,
      waiting: 999,
      waitingPerAddress: 999,
      inOneTick: { all: 999, address: 999 },
      timeLimit: 10_000,
    }));
    let begun = 0;
    const request = async (_: unknown, n: number): Promise<void> => {
      const turn = new Turn(queue, "192.0.2.1");
      await turn.take();
      begun++;
      await turn.run(() => append(one, `entry ${n}`)).finally(() => turn.yield());
    };
    const requests = Array.from({ length: 300 }, request);
    for (let i = 0; i < 400; i++) await new Promise(setImmediate);
    expect(begun).toBe(257);
    release();
    await Promise.all(requests);
    expect(begun).toBe(300);
  });

  test("leaves full bundles in their places, and repeats none of them in its stage", async () => {
    const bucket = new MemoryBucket();
    const one = instance(bucket);
    const words = Array.from({ length: 1200 }, (_, i) => `entry ${i}`);
    for (let i = 0; i < 1200; i += 100)
      await Promise.all(words.slice(i, i + 100).map((each) => append(one, each)));
    await append(one, "one more");
    const stage = bucket.objects.get("stage.json")?.octets.length ?? 0;
    expect(stage).toBeLessThan(400 * 70);
    const other = instance(bucket);
    await append(other, "of another");
    await other.publish();
    expect(await published(other)).toEqual([...words, "one more", "of another"]);
    expect(bucket.written.filter((path) => path === "tile/entries/000")).toHaveLength(1);
  });

  test.each([true, false])(
    "outlives an instance that ends at any write, whether it took effect (%s)",
    async (lastTakesEffect) => {
      for (let writes = 1; writes <= 12; writes++) {
        const bucket = new MemoryBucket();
        const before = instance(bucket);
        const known = (await append(before, "first")).index;
        Object.assign(bucket, { left: writes, lastTakesEffect });
        const dying = instance(bucket);
        const answered: [string, number][] = [["first", known]];
        const live = async (): Promise<void> => {
          for (const words of ["second", "third"]) {
            answered.push([words, (await append(dying, words)).index]);
            await dying.publish();
          }
        };
        await live().catch(() => {});
        bucket.left = Number.POSITIVE_INFINITY;
        const after = instance(bucket);
        answered.push(["last", (await append(after, "last")).index]);
        await after.publish();
        const entries = await published(after);
        for (const [words, index] of answered) expect(entries[index]).toBe(words);
      }
    },
  );

  test("writes its stage before anything that this commits to, and the checkpoint last", async () => {
    const bucket = new MemoryBucket();
    const one = instance(bucket);
    await append(one, "first");
    expect(bucket.written[0]).toBe("stage.json");
    bucket.written.length = 0;
    await one.publish();
    const [stage, ...others] = bucket.written;
    expect(stage).toBe("stage.json");
    expect(others.filter((path) => path.startsWith("tile/"))).toHaveLength(2);
    expect(others.indexOf("checkpoint")).toBe(2);
  });

  test("has its verifier key, whenever the instance that begins it ends", async () => {
    for (let writes = 1; writes <= 6; writes++) {
      const bucket = new MemoryBucket();
      bucket.left = writes;
      const dying = instance(bucket);
      await append(dying, "first").catch(() => {});
      await dying.publish().catch(() => {});
      bucket.left = Number.POSITIVE_INFINITY;
      const after = instance(bucket);
      await append(after, "second");
      await after.publish();
      expect(await published(after)).toContain("second");
    }
  });

  test("names the bucket to nobody who asks whether it is well", async () => {
    const bucket = new MemoryBucket();
    const one = instance(bucket);
    await append(one, "first");
    bucket.write = () => Promise.reject(new Error("the bucket https://inside.test/x is away"));
    await expect(append(one, "second")).rejects.toMatchObject({
      refusal: { reason: "log-unavailable" },
    });
    const takes = "the issuance log takes no entry (no reason given)";
    expect(one.issuanceLog.troubles()).toEqual([takes]);
    await expect(one.publish()).rejects.toThrow("inside.test");
    const publishes = "the issuance log is not published (no reason given)";
    expect(one.issuanceLog.troubles()).toEqual([publishes, takes]);
  });

  test.each([false, true])(
    "takes entries again once the bucket does, before anybody appends one; all are published: %j",
    async (isPublished) => {
      const bucket = new MemoryBucket();
      const one = instance(bucket);
      await append(one, "first");
      if (isPublished) await one.publish();
      const { write } = bucket;
      bucket.write = () => Promise.reject(new FetchError("is away"));
      await expect(append(one, "second")).rejects.toThrow();
      await expect(one.publish()).rejects.toThrow();
      expect(one.issuanceLog.refusal()).toContain("takes no entry");
      bucket.write = write;
      await one.publish();
      expect(one.issuanceLog.troubles()).toEqual([]);
    },
  );

  test("begins on the day of its inception alone", async () => {
    const bucket = new MemoryBucket();
    const late = instance(bucket, "2026-11-22");
    await expect(append(late, "first")).rejects.toMatchObject({
      refusal: { reason: "log-unavailable" },
    });
    expect(late.issuanceLog.refusal()).toContain("today is not its inception");
    expect(bucket.objects.size).toBe(0);
  });

  test.each([
    ["an older stage", "stage.json"],
    ["an older checkpoint", "checkpoint"],
  ])("does not go on from %s", async (_, path) => {
    const bucket = new MemoryBucket();
    const one = instance(bucket);
    await append(one, "first");
    await one.publish();
    const older = bucket.objects.get(path);
    await append(one, "second");
    await one.publish();
    if (older) bucket.objects.set(path, older);
    await expect(append(instance(bucket), "third")).rejects.toMatchObject({
      refusal: { reason: "log-unavailable" },
    });
  });

  test("refuses a damaged stage", async () => {
    const bucket = new MemoryBucket();
    await append(instance(bucket), "first");
    bucket.objects.set("stage.json", { octets: entryOf("{}"), version: "v" });
    await expect(append(instance(bucket), "second")).rejects.toMatchObject({
      refusal: { reason: "log-unavailable" },
    });
  });
});

describe("a log in S3", () => {
  async function start() {
    const api = await startS3Api();
    onTestFinished(api.close);
    const today = new Date().toISOString().slice(0, 10);
    const parts = { ...partsOn(today), configuration: { ...configuration, inceptionDate: today } };
    const open = () => openBucketLog(api.place, parts);
    return { api, open, log: await open() };
  }

  type Bucket = Awaited<ReturnType<typeof start>>["api"];

  test("of two writers to one version of an object, the second is told", async () => {
    const { api } = await start();
    const { read, write } = bucketObjects(api.place, fetch, () => new Date());
    const first = await write("stage.json", entryOf("1"), undefined);
    expect(await write("stage.json", entryOf("2"), undefined)).toBeUndefined();
    const second = await write("stage.json", entryOf("2"), first);
    expect(await write("stage.json", entryOf("3"), first)).toBeUndefined();
    expect(await read("stage.json")).toEqual({ octets: entryOf("2"), version: second });
  });

  test("neither lists nor reads what it has published, however much that is, when it opens", async () => {
    const { api, open, log } = await start();
    await append(log, "first");
    for (let i = 100; i < 150; i++) api.put(`${api.place.prefix}tile/0/${i}`, "hashes");
    api.asked.length = 0;
    await append(await open(), "second");
    expect(api.asked.filter((each) => each.includes("/tile/"))).toEqual([]);
    expect(api.asked.filter((each) => each === `GET /${api.place.bucket}`)).toHaveLength(1);
  });

  /** What AWS answers for an object that is not there, without the permission s3:ListBucket. */
  const forbidding = ({ objects, place }: Bucket): Bucket["instead"] => {
    return ({ method, url = "" }, response) => {
      const name = url.slice(`/${place.bucket}/`.length);
      if (method !== "GET" || objects.has(name)) return false;
      response.writeHead(403).end("<Error><Code>AccessDenied</Code></Error>");
      return true;
    };
  };

  test.each<[string, string, (api: Bucket) => void, (api: Bucket) => void]>([
    [
      "answers 403 for what is not there",
      "refuses the credential for GET (status 403, AccessDenied)",
      (api) => {
        api.instead = forbidding(api);
      },
      (api) => {
        api.instead = undefined;
      },
    ],
    [
      "is full",
      "answered PUT with status 507, XMinioStorageFull",
      (api) => {
        api.instead = ({ method }, response) =>
          method === "PUT" &&
          Boolean(response.writeHead(507).end("<Error><Code>XMinioStorageFull</Code></Error>"));
      },
      (api) => {
        api.instead = undefined;
      },
    ],
    [
      "takes the credential no more",
      "refuses the credential for",
      (api) => {
        api.credential = { ...api.credential, accessKeyId: "AKIDOFTOMORROW" };
      },
      (api) => {
        api.credential = { ...api.credential, accessKeyId: "AKIDOFTHETEST" };
      },
    ],
    [
      "finds the clock of the machine wrong",
      "refuses the time of the request: set the clock of this machine",
      (api) => {
        api.instead = (_, response) =>
          Boolean(response.writeHead(403).end("<Error><Code>RequestTimeTooSkewed</Code></Error>"));
      },
      (api) => {
        api.instead = undefined;
      },
    ],
  ])(
    "a bucket that %s: no entry is answered, the cause is said, and the log goes on after it",
    async (_, said, begin, end) => {
      for (const isOpen of [false, true]) {
        const { api, log } = await start();
        if (isOpen) await append(log, "before");
        begin(api);
        // A log that is open reads nothing of what is not there.
        const isHidden = isOpen && said.includes("GET");
        const appended = append(log, "first").then(
          ({ index }) => index,
          (error: unknown) => String((error as Error).cause),
        );
        expect(await appended).toEqual(isHidden ? 1 : expect.stringContaining(said));
        if (!isHidden) {
          // It says so to strangers too, without the address of the bucket.
          const [reason = ""] = log.issuanceLog.troubles();
          expect(reason).toContain(`takes no entry: it ${said.replace(/:.*/, "")}`);
          expect(reason).not.toContain(api.origin);
        }
        end(api);
        if (!isHidden) await append(log, "first");
        await log.publish();
        expect(log.issuanceLog.troubles()).toEqual([]);
        expect(await published(log)).toEqual([...(isOpen ? ["before"] : []), "first"]);
      }
    },
  );
});
