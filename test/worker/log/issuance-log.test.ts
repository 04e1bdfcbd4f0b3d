import {
  evictDurableObject,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { ObjectReader } from "../../../src/tlog/extend.ts";
import { Frontier } from "../../../src/tlog/frontier.ts";
import { openCheckpointText } from "../../../src/tlog/note/checkpoint.ts";
import { VerifierKey } from "../../../src/tlog/note/verifier-key.ts";
import {
  type OpenWorkerLog,
  openLogWithin,
  openWorkerLog,
} from "../../../src/worker/log/worker-log.ts";
import { describeIssuanceLog } from "../../contract/log/issuance-log.ts";
import { logOrigin } from "../../contract/log/log-values.ts";
import { parseLogLine, takeAuditsOf } from "../../testkit/log/log-lines.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";
import { recordConsoleLines } from "../runtime/console-lines.ts";
import { logValues } from "../runtime/log-values.ts";
import { stageWorker } from "../runtime/staged-worker.ts";
import type { TestedLogShard } from "../runtime/tested-log-shard.ts";

const lines = recordConsoleLines();
const shardOrigin = `${logOrigin}/0`;

const shard = () => env.LOG_SHARD.getByName(shardOrigin);
const publish = async (): Promise<void> => {
  await runDurableObjectAlarm(shard());
};

/** A shard may be slow on a slow machine. */
const openLog: OpenWorkerLog = (...log) => openLogWithin(hangMilliseconds, ...log);

const unreachable = async () => {
  throw new Error("the object was reset");
};

async function start(changes: Readonly<Record<string, unknown>> = {}, open = openLog) {
  await reset();
  const worker = stageWorker({ ...logValues, ...changes }, { openLog: open }, lines);
  await worker.cron();
  return { ...worker, publish };
}

describeIssuanceLog(() => start());

const entry = (i: number) => new TextEncoder().encode(`entry ${i}`) as Uint8Array<ArrayBuffer>;
const append = (i: number) => shard().append(shardOrigin, entry(i));
const appendMany = (from: number, count: number) =>
  Promise.all(Array.from({ length: count }, (_, i) => append(from + i)));

const setPuts = (puts: Parameters<TestedLogShard["setPuts"]>[0]): Promise<void> =>
  runInDurableObject(shard(), (instance) => instance.setPuts(puts));

const read = async (path: string): Promise<Uint8Array | undefined> => {
  const object = await env.LOG_BUCKET.get(`${shardOrigin}/${path}`);
  return object ? new Uint8Array(await object.arrayBuffer()) : undefined;
};

async function entriesIn(): Promise<string[]> {
  const [vkey, text] = await Promise.all(
    ["vkey", "checkpoint"].map(async (path) => new TextDecoder().decode(await read(path))),
  );
  const tree = await openCheckpointText(text ?? "", VerifierKey.parse(vkey?.trim() ?? ""));
  const entries: string[] = [];
  await ObjectReader.extend(Frontier.empty(), tree, read, (_, octets) => {
    entries.push(new TextDecoder().decode(octets));
  });
  return entries;
}

const stagedRows = (): Promise<number> =>
  runInDurableObject(shard(), (_, { storage }) => {
    const { rows } = storage.sql.exec<{ rows: number }>("SELECT count(*) AS rows FROM batch").one();
    return rows;
  });

describe("a shard", () => {
  beforeEach(async () => {
    await reset();
  });

  test("commits calls that come together as few rows, and forgets them when published", async () => {
    const results = await appendMany(0, 300);
    expect(results.map((each) => "index" in each && each.index).toSorted()).toEqual(
      Array.from({ length: 300 }, (_, i) => i).toSorted(),
    );
    expect(await stagedRows()).toBeLessThan(150);
    await publish();
    expect(await stagedRows()).toBe(1);
    expect(await entriesIn()).toHaveLength(300);
  });

  test("commits what comes while a commit is being flushed as one row", async () => {
    await append(0);
    const { promise, resolve } = Promise.withResolvers<void>();
    await runInDurableObject(shard(), (instance) => instance.setFlush(promise));
    expect(await append(1)).toEqual({ index: 1 });
    const later: ReturnType<typeof append>[] = [];
    for (let i = 2; i < 12; i++) {
      later.push(append(i));
      // Each comes in a turn of its own.
      expect(await stagedRows()).toBe(2);
    }
    await runInDurableObject(shard(), (instance) => {
      instance.setFlush(undefined);
      resolve();
    });
    expect(await Promise.all(later)).toEqual(later.map((_, i) => ({ index: 2 + i })));
    expect(await stagedRows()).toBe(3);
  });

  test("goes on after it was evicted, with entries that nothing has published", async () => {
    await appendMany(0, 10);
    await evictDurableObject(shard());
    expect(await append(10)).toEqual({ index: 10 });
    await publish();
    expect((await entriesIn())[10]).toBe("entry 10");
  });

  test("publishes once when its alarm comes twice, and needs no alarm when nothing is new", async () => {
    await appendMany(0, 3);
    await publish();
    await publish();
    expect(await runDurableObjectAlarm(shard())).toBe(false);
    expect(await append(3)).toEqual({ index: 3 });
    expect(await runDurableObjectAlarm(shard())).toBe(true);
    expect(await entriesIn()).toHaveLength(4);
  });

  test("sets its alarm again when an entry comes after alarms were lost", async () => {
    await append(0);
    await runInDurableObject(shard(), (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(shard());
    await append(1);
    expect(await runDurableObjectAlarm(shard())).toBe(true);
    expect(await entriesIn()).toHaveLength(2);
  });

  test("refuses entries when the object was rolled back behind its publication", async () => {
    await append(0);
    await publish();
    await runInDurableObject(shard(), (_, { storage }) => storage.deleteAll());
    await evictDurableObject(shard());
    expect(await append(1)).toMatchObject({ refused: "closed" });
    expect(await entriesIn()).toHaveLength(1);
  });

  test("begins no log anew when its storage is lost years after its inception", async () => {
    const LOG_INCEPTION_DATE = "2024-11-21";
    await runInDurableObject(shard(), (instance) => instance.configure({ LOG_INCEPTION_DATE }));
    expect(await append(0)).toEqual({
      refused: "closed",
      detail: expect.stringContaining("there is no log, and today is not its inception"),
    });
  });

  test("publishes what it has after an alarm that could not even open it, without another entry", async () => {
    await append(0);
    await evictDurableObject(shard());
    await setPuts("refuse");
    expect(await runDurableObjectAlarm(shard())).toBe(true);
    await setPuts("store");
    expect(await runDurableObjectAlarm(shard())).toBe(true);
    expect(await entriesIn()).toEqual(["entry 0"]);
  });

  test.each(["refuse", "store-and-fail"] as const)(
    "keeps taking entries while R2 answers a put with an error (%s), and publishes when it does not",
    async (puts) => {
      await appendMany(0, 3);
      await setPuts(puts);
      for (const _ of [1, 2, 3]) await publish();
      expect(lines.map(parseLogLine)).toContainEqual(
        expect.objectContaining({ event: "log-not-published", level: "error" }),
      );
      expect(await append(3)).toEqual({ index: 3 });
      const trouble = expect.stringContaining("entries wait to be published");
      expect(await shard().look(shardOrigin)).toEqual({ trouble });
      await setPuts("store");
      expect(await runDurableObjectAlarm(shard())).toBe(true);
      expect(await shard().look(shardOrigin)).toEqual({});
      expect(await entriesIn()).toEqual([0, 1, 2, 3].map((i) => `entry ${i}`));
    },
  );

  test("has every answered entry when it was killed under load, and one history", async () => {
    await append(0);
    const appended = Array.from({ length: 100 }, (_, i) => append(1 + i));
    await Promise.race(appended.slice(0, 20));
    await runInDurableObject(shard(), (_, state) => state.abort("killed")).catch(() => {});
    const settled = await Promise.allSettled(appended);
    const answered = settled.flatMap((each, i) =>
      each.status === "fulfilled" && "index" in each.value ? [[each.value.index, 1 + i]] : [],
    );
    await append(101);
    await publish();
    const entries = await entriesIn();
    expect(answered.length).toBeGreaterThan(0);
    for (const [index = -1, i] of answered) expect(entries[index]).toBe(`entry ${i}`);
  });

  test("says of itself that its storage takes nothing", async () => {
    await append(0);
    expect(await shard().look(shardOrigin)).toEqual({});
    await runInDurableObject(shard(), (_, { storage }) => {
      for (const table of ["batch", "text"])
        storage.sql.exec(`ALTER TABLE ${table} RENAME TO ${table}_gone`);
    });
    expect(await append(1)).toMatchObject({ refused: "failed" });
    const { refusal } = await shard().look(shardOrigin);
    expect(refusal).toContain("no such table");
    await runInDurableObject(shard(), (_, { storage }) => {
      for (const table of ["batch", "text"])
        storage.sql.exec(`ALTER TABLE ${table}_gone RENAME TO ${table}`);
    });
    // A look tries again.
    await eventually(async () => expect(await shard().look(shardOrigin)).toEqual({}));
  });

  test("has a named entry once, also after it was evicted", async () => {
    const before = [
      { name: "a", entry: new TextEncoder().encode("authority") as Uint8Array<ArrayBuffer> },
    ];
    const appendAfter = (i: number) => shard().append(shardOrigin, entry(i), before);
    expect(await appendAfter(0)).toEqual({ index: 1 });
    await evictDurableObject(shard());
    expect(await appendAfter(1)).toEqual({ index: 2 });
    await publish();
    expect(await entriesIn()).toEqual(["authority", "entry 0", "entry 1"]);
  });

  test("never replaces an object that is published, and says so", async () => {
    await append(0);
    await env.LOG_BUCKET.put(`${shardOrigin}/tile/entries/000.p/1`, "another");
    await publish();
    expect(lines.map(parseLogLine)).toContainEqual(
      expect.objectContaining({ event: "log-not-published" }),
    );
    expect(await append(1)).toEqual({ index: 1 });
    await env.LOG_BUCKET.delete(`${shardOrigin}/tile/entries/000.p/1`);
    await publish();
    await publish();
    expect(await entriesIn()).toHaveLength(2);
  });
});

describe("a Worker", () => {
  const broken = {
    append: async () => ({ refused: "failed", detail: "disk I/O error" }),
    look: async () => ({ refusal: "disk I/O error" }),
  };
  const readinessOf = async (service: Awaited<ReturnType<typeof start>>) => {
    const answer = await service.get("/readyz");
    const { reasons } = await answer.json<{ reasons: string[] }>();
    return { status: answer.status, reasons };
  };

  test("answers no certificate when its shard takes none, and asks to try again", async () => {
    const service = await start({ LOG_SHARD: { getByName: () => broken } });
    expect(await service.call()).toMatchObject({ code: "Unavailable" });
    expect(takeAuditsOf(lines).at(-1)).toMatchObject({
      reason: "log-unavailable",
      log: "unlogged",
    });
    expect(await readinessOf(service)).toEqual({
      status: 503,
      reasons: ["the issuance log: disk I/O error"],
    });
  });

  test.each([
    ["its shard takes no entry", { LOG_SHARD: { getByName: () => broken } }],
    ["every shard refuses", { LOG_SHARD: { getByName: () => broken }, LOG_SHARDS: 2 }],
    ["its shard cannot be reached", { LOG_SHARD: { getByName: () => ({ look: unreachable }) } }],
  ])("is not ready when %s, before anybody has asked it for a certificate", async (_, changes) => {
    const { status, reasons } = await readinessOf(await start(changes));
    expect(status).toBe(503);
    expect(reasons).toEqual([expect.stringMatching(/^the issuance log: disk I\/O error|reset/)]);
  });

  test("is not ready when R2 refuses what a log begins with, and ready once it does not", async () => {
    const service = await start();
    await setPuts("refuse");
    const refused = await readinessOf(service);
    expect(refused.status).toBe(503);
    expect(refused.reasons).toEqual([expect.stringContaining("Reduce your concurrent")]);
    await setPuts("store");
    service.pass(10);
    expect(await readinessOf(service)).toEqual({ status: 200, reasons: [] });
  });

  test("asks its shard for its state once in ten seconds, whoever asks it", async () => {
    let looks = 0;
    const counted = { look: async () => ({ looks: ++looks }) };
    const service = await start({ LOG_SHARD: { getByName: () => counted } });
    for (const _ of [1, 2, 3]) await readinessOf(service);
    expect(looks).toBe(1);
    for (const [seconds, expected] of [
      [10, 2],
      [-3600, 3],
    ] as const) {
      service.pass(seconds);
      await readinessOf(service);
      expect(looks).toBe(expected);
    }
  });

  const silent = { getByName: () => ({ append: () => new Promise(() => {}) }) };

  test("answers no certificate when two shards never answer", async () => {
    const changes = { LOG_SHARD: silent, LOG_SHARDS: 2 };
    const service = await start(changes, (...log) => openLogWithin(1, ...log));
    expect(await service.call()).toMatchObject({ code: "Unavailable" });
    expect(takeAuditsOf(lines).at(-1)).toMatchObject({
      reason: "log-unavailable",
      log: "unlogged",
    });
  });

  test("waits for a shard that has none beside it", async () => {
    const append = async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return { index: 7 };
    };
    const changes = { LOG_SHARD: { getByName: () => ({ append }) } };
    const service = await start(changes, (...log) => openLogWithin(1, ...log));
    expect(await service.call()).toHaveProperty("certChain");
  });

  test("asks another shard once", async () => {
    const asked: string[] = [];
    const LOG_SHARD = {
      getByName: (name: string) => {
        asked.push(name);
        return asked.length === 1 ? broken : { append: async () => ({ index: 7 }) };
      },
    };
    const service = await start({ LOG_SHARD, LOG_SHARDS: 2 });
    expect(await service.call()).toHaveProperty("certChain");
    expect(new Set(asked).size).toBe(2);
    expect(takeAuditsOf(lines).at(-1)).toMatchObject({ log: asked[1], logIndex: 7 });
  });

  test("gives each shard the authorities until it has them, and is ready while one takes entries", async () => {
    const given: [string, number][] = [];
    const refusals = [1, 2, 3];
    const LOG_SHARD = {
      getByName: (name: string) => ({
        look: async () => ({}),
        append: async (_origin: string, _entry: Uint8Array, before: readonly unknown[]) =>
          refusals.includes(given.push([name, before.length]) - 1) ? broken.append() : { index: 7 },
      }),
    };
    const service = await start({ LOG_SHARD, LOG_SHARDS: 2 });
    const states: [boolean, number, number][] = [];
    for (const _ of [1, 2, 3, 4]) {
      const isAnswered = "certChain" in (await service.call());
      const { status, reasons } = await readinessOf(service);
      states.push([isAnswered, status, reasons.length]);
    }
    expect(states).toEqual([
      [true, 200, 0],
      [false, 503, 1],
      [true, 200, 1],
      [true, 200, 0],
    ]);
    const [home] = given[0] ?? [];
    const [other] = given[2] ?? [];
    expect(given).toEqual([
      [home, 1],
      [home, 0],
      [other, 1],
      [home, 0],
      [other, 1],
      [home, 0],
    ]);
    expect(home).not.toBe(other);
  });

  test("is ready, and says so, while a look finds that another shard takes what the first refuses", async () => {
    const names: string[] = [];
    const LOG_SHARD = {
      getByName: (name: string) => {
        names.push(name);
        return name === names[0] ? broken : { look: async () => ({}) };
      },
    };
    const service = await start({ LOG_SHARD, LOG_SHARDS: 2 });
    const { status, reasons } = await readinessOf(service);
    expect([status, reasons]).toEqual([200, [expect.stringContaining("disk I/O error")]]);
    expect(new Set(names).size).toBe(2);
  });

  test.each([
    ["without the binding of the shards", { LOG_SHARD: undefined }, "LOG_SHARD"],
    ["without the bucket", { LOG_BUCKET: undefined }, "LOG_BUCKET"],
  ])("serves nothing %s", async (_, changes, name) => {
    const worker = stageWorker({ ...logValues, ...changes }, { openLog: openWorkerLog });
    const response = await worker.get("/readyz");
    expect(response.status).toBe(503);
    expect(await response.text()).toContain(name);
  });

  test("serves nothing from a main module without a log", async () => {
    const response = await stageWorker(logValues).get("/readyz");
    expect(response.status).toBe(503);
    expect(await response.text()).toContain("main-with-log.ts");
  });
});
