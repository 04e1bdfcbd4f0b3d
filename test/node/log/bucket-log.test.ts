import { describe, expect, onTestFinished, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import type { Pause } from "../../../src/foundation/pause.ts";
import { FairQueue } from "../../../src/node/limits/fair-queue.ts";
import { Turn } from "../../../src/node/limits/turn.ts";
import { bucketObjects, openBucketLog } from "../../../src/node/log/bucket-log.ts";
import { startS3Api } from "../../testkit/stores/s3-api.ts";
import { MemoryBucket } from "../../testkit/tlog/memory-bucket.ts";
import { appendTo, octetsOf, partsOf, published, start } from "./bucket-processes.ts";

const untilAborted: Pause = (_, ending) =>
  new Promise((resolve) => ending?.addEventListener("abort", () => resolve()));

/** Turns of one address, one at a time. */
function oneTurnOf(waiting: number): () => Turn {
  const atOnce = { underWay: 1, underWayPerAddress: 1, timeLimit: 10_000 };
  const many = { waiting, waitingPerAddress: waiting };
  const inOneTick = { all: waiting, address: waiting };
  const queue = new FairQueue(() => ({ ...atOnce, ...many, inOneTick }));
  return () => new Turn(queue, "192.0.2.1");
}

describe("a log in a bucket", () => {
  test("grows while several processes publish it", async () => {
    const bucket = new MemoryBucket();
    const work = Array.from({ length: 4 }, () => start(bucket)).flatMap((each, i) =>
      Array.from({ length: 20 }, async (_, n) => {
        await each.append(`${i}/${n}`);
        if (n % 3 === i % 3) await each.publish();
      }),
    );
    await Promise.all(work);
    const last = start(bucket);
    await last.publish();
    const entries = await published(last.log);
    expect([entries.length, new Set(entries).size]).toEqual([80, 80]);
  });

  test("begins though its bucket is away, and publishes at its end what is left", async () => {
    const bucket = new MemoryBucket();
    const { log, objects, append } = start(bucket, { pause: untilAborted });
    const { read } = objects;
    Object.assign(objects, { read: () => Promise.reject(new FetchError("did not answer")) });
    const end = await log.begin();
    Object.assign(objects, { read });
    await append("first");
    await end();
    expect(await published(start(bucket).log)).toEqual(["first"]);
  });

  test("is written once for callers who ask again as soon as they are answered", async () => {
    const bucket = new MemoryBucket();
    const one = start(bucket, { pause: untilAborted });
    await one.append("first");
    bucket.written.length = 0;
    const rounds = 5;
    const caller = async (_: unknown, n: number): Promise<void> => {
      for (let i = 0; i < rounds; i++) await one.append(`entry ${n}/${i}`);
    };
    await Promise.all(Array.from({ length: 20 }, caller));
    expect(bucket.written).toHaveLength(rounds);
  });

  test("is awaited by a request that leaves its turn to others", async () => {
    const bucket = new MemoryBucket();
    const one = start(bucket);
    await one.append("first");
    const turn = oneTurnOf(9);
    const [mine, other] = [turn(), turn()];
    bucket.written.length = 0;
    await mine.take();
    const appending = mine.run(() => one.append("second"));
    await other.take();
    expect(bucket.written).toEqual([]);
    other.yield();
    await appending;
    expect(mine.isHeld).toBe(true);
  });

  test("is awaited by few requests at once that have left their turns, gone callers among them", async () => {
    const bucket = new MemoryBucket();
    const one = start(bucket);
    await one.append("first");
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const { write } = one.objects;
    const slowly = async (...object: Parameters<typeof write>) => {
      await held;
      return write(...object);
    };
    Object.assign(one.objects, { write: slowly });
    const turnOf = oneTurnOf(999);
    let begun = 0;
    const request = async (_: unknown, n: number): Promise<void> => {
      const turn = turnOf();
      await turn.take();
      begun++;
      await turn.run(() => one.append(`entry ${n}`)).finally(() => turn.yield());
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
    const one = start(bucket);
    const words = Array.from({ length: 1200 }, (_, i) => `entry ${i}`);
    for (let i = 0; i < 1200; i += 100)
      await Promise.all(words.slice(i, i + 100).map((each) => one.append(each)));
    await one.append("one more");
    const stage = bucket.objects.get("stage.json")?.octets.length ?? 0;
    expect(stage).toBeLessThan(400 * 70);
    const other = start(bucket);
    await other.append("of another");
    await other.publish();
    expect(await published(other.log)).toEqual([...words, "one more", "of another"]);
    expect(bucket.written.filter((path) => path === "tile/entries/000")).toHaveLength(1);
  });

  test("writes its stage before anything that this commits to, and the checkpoint last", async () => {
    const bucket = new MemoryBucket();
    const one = start(bucket);
    await one.append("first");
    expect(bucket.written[0]).toBe("stage.json");
    bucket.written.length = 0;
    await one.publish();
    const [stage, ...others] = bucket.written;
    expect(stage).toBe("stage.json");
    expect(others.filter((path) => path.startsWith("tile/"))).toHaveLength(2);
    expect(others.indexOf("checkpoint")).toBe(2);
  });

  test("names the bucket to nobody who asks whether it is well", async () => {
    const { log, append, publish, objects } = start(new MemoryBucket());
    await append("first");
    const write = () => Promise.reject(new Error("the bucket https://inside.test/x is away"));
    Object.assign(objects, { write });
    await expect(append("second")).rejects.toMatchObject({
      refusal: { reason: "log-unavailable" },
    });
    const takes = "the issuance log takes no entry (no reason given)";
    expect(log.issuanceLog.troubles()).toEqual([takes]);
    await expect(publish()).rejects.toThrow("inside.test");
    const publishes = "the issuance log is not published (no reason given)";
    expect(log.issuanceLog.troubles()).toEqual([publishes, takes]);
  });

  test.each([false, true])(
    "takes entries again once the bucket does, before anybody appends one; all are published: %j",
    async (isPublished) => {
      const { log, append, publish, objects } = start(new MemoryBucket());
      await append("first");
      if (isPublished) await publish();
      const { write } = objects;
      Object.assign(objects, { write: () => Promise.reject(new FetchError("is away")) });
      await expect(append("second")).rejects.toThrow();
      await expect(publish()).rejects.toThrow();
      expect(log.issuanceLog.refusal()).toContain("takes no entry");
      Object.assign(objects, { write });
      await publish();
      expect(log.issuanceLog.troubles()).toEqual([]);
    },
  );

  test.each([
    ["an older stage", "stage.json"],
    ["an older checkpoint", "checkpoint"],
  ])("does not go on from %s", async (_, path) => {
    const bucket = new MemoryBucket();
    const one = start(bucket);
    await one.append("first");
    await one.publish();
    const older = bucket.objects.get(path);
    await one.append("second");
    await one.publish();
    if (older) bucket.objects.set(path, older);
    await expect(start(bucket).append("third")).rejects.toMatchObject({
      refusal: { reason: "log-unavailable" },
    });
  });
});

describe("a log in S3", () => {
  async function startS3() {
    const api = await startS3Api();
    onTestFinished(api.close);
    const today = new Date().toISOString().slice(0, 10);
    const { configuration, ...parts } = partsOf({ today });
    const beginning = { ...parts, configuration: { ...configuration, inceptionDate: today } };
    const open = () => openBucketLog(api.place, beginning);
    return { api, open, log: await open() };
  }

  type Bucket = Awaited<ReturnType<typeof startS3>>["api"];

  test("of two writers to one version of an object, the second is told", async () => {
    const { api } = await startS3();
    const { read, write } = bucketObjects(api.place, fetch, () => new Date());
    const first = await write("stage.json", octetsOf("1"), undefined);
    expect(await write("stage.json", octetsOf("2"), undefined)).toBeUndefined();
    const second = await write("stage.json", octetsOf("2"), first);
    expect(await write("stage.json", octetsOf("3"), first)).toBeUndefined();
    expect(await read("stage.json")).toEqual({ octets: octetsOf("2"), version: second });
  });

  test("neither lists nor reads what it has published, however much that is, when it opens", async () => {
    const { api, open, log } = await startS3();
    await appendTo(log, "first");
    for (let i = 100; i < 150; i++) api.put(`${api.place.prefix}tile/0/${i}`, "hashes");
    api.asked.length = 0;
    await appendTo(await open(), "second");
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

  const refusing =
    (status: number, code: string, method?: string): ((api: Bucket) => Bucket["instead"]) =>
    () =>
    (request, response) =>
      (method === undefined || method === request.method) &&
      Boolean(response.writeHead(status).end(`<Error><Code>${code}</Code></Error>`));

  test.each<[string, string, (api: Bucket) => Bucket["instead"]]>([
    [
      "answers 403 for what is not there",
      "refuses the credential for GET (status 403, AccessDenied)",
      forbidding,
    ],
    [
      "is full",
      "answered PUT with status 507, XMinioStorageFull",
      refusing(507, "XMinioStorageFull", "PUT"),
    ],
    [
      "takes the credential no more",
      "refuses the credential for",
      refusing(403, "InvalidAccessKeyId"),
    ],
    [
      "finds the clock of the machine wrong",
      "refuses the time of the request: set the clock of this machine",
      refusing(403, "RequestTimeTooSkewed"),
    ],
  ])(
    "a bucket that %s: no entry is answered, the cause is said, and the log goes on after it",
    async (_, said, insteadOf) => {
      for (const isOpen of [false, true]) {
        const { api, log } = await startS3();
        if (isOpen) await appendTo(log, "before");
        api.instead = insteadOf(api);
        // A log that is open reads nothing of what is not there.
        const isHidden = isOpen && said.includes("GET");
        const appended = appendTo(log, "first").then(
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
        api.instead = undefined;
        if (!isHidden) await appendTo(log, "first");
        await log.publish();
        expect(log.issuanceLog.troubles()).toEqual([]);
        expect(await published(log)).toEqual([...(isOpen ? ["before"] : []), "first"]);
      }
    },
  );
});
