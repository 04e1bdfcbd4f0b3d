import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CaError } from "../../../src/foundation/errors.ts";
import { Frontier } from "../../../src/tlog/frontier.ts";
import { Hash } from "../../../src/tlog/merkle.ts";
import { openCheckpointText } from "../../../src/tlog/note/checkpoint.ts";
import { VerifierKey } from "../../../src/tlog/note/verifier-key.ts";
import { createKek } from "../../testkit/pki/sealed-record.ts";
import { type Fate, MemoryBucket } from "../../testkit/tlog/memory-bucket.ts";
import { octetsOf, origin, published, start } from "./bucket-processes.ts";

type Process = ReturnType<typeof start>;
type Answered = Map<string, { readonly origin: string; readonly index: number }>;

async function appendAll(process: Process, words: readonly string[], answered: Answered) {
  const appending = words.map(async (each) => {
    const position = await process.append(each).catch(() => undefined);
    if (position) answered.set(each, position);
  });
  await Promise.all(appending);
}

/** The published entries of each origin. Every checkpoint that was ever published must lead to them. */
async function audit(bucket: MemoryBucket, shards: number): Promise<Map<string, string[]>> {
  const { log } = start(bucket, { shards });
  const logs = new Map<string, string[]>();
  for (const { shard, origin: name, verifierKey } of await log.publishedLog.shards()) {
    const key = VerifierKey.parse(verifierKey);
    const folder = shard === "0" ? "" : `${shard}/`;
    const seen = bucket.checkpoints.filter(({ path }) => path === `${folder}checkpoint`);
    const trees = await Promise.all(seen.map(({ text }) => openCheckpointText(text, key)));
    const roots = new Map(trees.map(({ size, root }) => [size, root]));
    const entries = await published(log, shard);
    const grown = Frontier.empty();
    for (const entry of [undefined, ...entries]) {
      if (entry !== undefined) grown.append(Hash.ofLeaf(octetsOf(entry)));
      const root = roots.get(grown.size);
      if (root) expect(grown.root()).toEqual(root);
      roots.delete(grown.size);
    }
    expect([...roots.keys()]).toEqual([]);
    logs.set(name, entries);
  }
  return logs;
}

async function requireOnce(bucket: MemoryBucket, shards: number, answered: Answered) {
  bucket.fates = [];
  await start(bucket, { shards }).publish();
  const logs = await audit(bucket, shards);
  for (const [words, position] of answered)
    expect(logs.get(position.origin)?.[position.index]).toBe(words);
  const all = [...logs.values()].flat();
  expect(new Set(all).size).toBe(all.length);
}

const fate = fc.constantFrom<Fate>("fine", "fine", "fine", "lost", "unanswered", "failed", "late");
const act = fc.record({
  process: fc.nat(2),
  what: fc.constantFrom("append", "append", "append", "many", "publish", "kill"),
});

describe("a log in a bucket", () => {
  test("has each answered entry once, and one history, whatever becomes of writes and processes", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(1, 2),
        fc.array(fc.array(act, { minLength: 1, maxLength: 4 }), { maxLength: 12 }),
        fc.array(fate, { maxLength: 60 }),
        async (shards, rounds, fates) => {
          const bucket = new MemoryBucket();
          await start(bucket, { shards }).publish();
          const begin = (firstShard: number): Process => start(bucket, { shards, firstShard });
          const processes = [begin(0), begin(0), begin(1)];
          const answered: Answered = new Map();
          bucket.fates = [...fates];
          let count = 0;
          const play = async (each: (typeof rounds)[number][number]): Promise<void> => {
            const process = processes[each.process] ?? begin(0);
            if (each.what === "publish") return process.publish().catch(() => {});
            const length = each.what === "many" ? 150 : each.what === "append" ? 2 : 0;
            const words = Array.from({ length }, () => `entry ${count++}`);
            const work = appendAll(process, words, answered);
            if (each.what !== "kill") return work;
            // It may be in the middle of what the others of this round have begun.
            await new Promise(setImmediate);
            process.kill();
            processes[each.process] = begin(each.process);
          };
          for (const round of rounds) {
            const kills = round.some(({ what }) => what === "kill");
            const playing = Promise.all(round.map(play));
            // Calls to a process that was killed never end.
            await (kills ? Promise.race([playing, turns(400)]) : playing);
          }
          for (const each of processes) each.kill();
          await requireOnce(bucket, shards, answered);
        },
      ),
      { numRuns: 15 },
    );
  });
});

const numbered = (count: number, name: string): string[] =>
  Array.from({ length: count }, (_, i) => `${name} ${i}`);

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise(setImmediate);
}

const filled = async (bucket: MemoryBucket, count: number): Promise<Process> => {
  const process = start(bucket);
  await appendAll(process, numbered(count, "before"), new Map());
  await process.publish();
  return process;
};

describe("an entry whose answer was lost", () => {
  test.each([1, 300])(
    "is there once though another process has published %s more before anybody looked",
    async (more) => {
      const bucket = new MemoryBucket();
      const one = await filled(bucket, 10);
      bucket.fates = ["unanswered"];
      await expect(one.append("mine")).rejects.toThrow();
      const answered: Answered = new Map();
      // The same entry comes a second time within one call: its first write is not answered, and is overtaken.
      await appendAll(one, ["opened again"], answered);
      bucket.fates = ["overtaken"];
      const appending = appendAll(one, ["again"], answered);
      const other = start(bucket);
      await appendAll(other, numbered(more, "other"), answered);
      await other.publish();
      await appending;
      expect(answered.size).toBe(more + 2);
      await requireOnce(bucket, 1, answered);
    },
  );
});

describe("a bucket that somebody has changed", () => {
  async function refusal(process: Process): Promise<string> {
    await process.append("later").catch(() => {});
    return process.log.issuanceLog.refusal() ?? "";
  }

  test.each([3, 300, 700])(
    "stops the running process after it went back by %s entries, at once and for good",
    async (count) => {
      const bucket = new MemoryBucket();
      const one = await filled(bucket, 10);
      const before = new Map(bucket.objects);
      await appendAll(one, numbered(count, "entry"), new Map());
      await one.publish();
      bucket.objects = before;
      expect(await refusal(one)).toContain("it was rolled back");
      // Another one, which knows nothing, goes on from there, and the log grows beyond what it was.
      const other = start(bucket);
      await appendAll(other, numbered(2 * count, "fork"), new Map());
      await other.publish();
      expect(await refusal(one)).toContain("it was rolled back");
      await expect(one.publish()).rejects.toThrow("it was rolled back");
    },
  );

  test("stops the running process after it lost what was staged", async () => {
    const bucket = new MemoryBucket();
    const one = await filled(bucket, 10);
    const before = new Map(bucket.objects);
    await appendAll(one, ["a", "b"], new Map());
    bucket.objects = before;
    expect(await refusal(one)).toContain("it was rolled back");
  });

  test("begins no second log where the first was deleted on its first day", async () => {
    const bucket = new MemoryBucket();
    const one = await filled(bucket, 10);
    bucket.objects = new Map();
    expect(await refusal(one)).toContain("does not go on");
    expect(bucket.objects.size).toBe(0);
  });

  test.each<[string, string, (bucket: MemoryBucket) => void]>([
    ["a staged bundle is gone", "are gone", (bucket) => bucket.objects.delete("tile/entries/000")],
    [
      "the checkpoint is that of another shard",
      "the checkpoint is another log's",
      ({ objects }) => {
        const other = objects.get("1/checkpoint");
        if (other) objects.set("checkpoint", other);
      },
    ],
    ["the checkpoint is gone", "checkpoint is gone", ({ objects }) => objects.delete("checkpoint")],
    ["the stage is gone", "the stage is empty", ({ objects }) => objects.delete("stage.json")],
    [
      "a staged bundle is another",
      "the staged entry 0 is missing",
      ({ objects }) => {
        const octets = new Uint8Array(objects.get("tile/entries/000")?.octets ?? []);
        octets[5] = (octets[5] ?? 0) ^ 1;
        objects.set("tile/entries/000", { octets, version: "changed" });
      },
    ],
  ])("starts no process when %s", async (_, words, change) => {
    const bucket = new MemoryBucket();
    const one = start(bucket, { shards: 2 });
    await one.append("first");
    await one.publish();
    await appendAll(one, numbered(300, "entry"), new Map());
    await one.append("last");
    change(bucket);
    const other = start(bucket, { today: "2026-11-22" });
    expect(await refusal(other)).toContain(words);
  });

  test("refuses a stage with any value of another kind by a sentence, or goes on with all that a checkpoint covers", async () => {
    const bucket = new MemoryBucket();
    const answered: Answered = new Map();
    const words = numbered(600, "entry");
    const one = start(bucket);
    await appendAll(one, words.slice(0, 300), answered);
    await one.publish();
    await appendAll(one, words.slice(300), new Map());
    await one.append("last");
    const stored = bucket.objects.get("stage.json");
    const text = new TextDecoder().decode(stored?.octets);
    expect(JSON.parse(text)).toMatchObject({ bundled: { from: 256, to: 512 } });
    const outcomes = new Set<string>();
    const known = bucket.checkpoints.length;
    for (const damaged of damagedTexts(text)) {
      bucket.objects.set("stage.json", { octets: octetsOf(damaged), version: "x" });
      const before = new Map(bucket.objects);
      const why = await refusal(start(bucket, { today: "2026-11-22" }));
      outcomes.add(why === "" ? "goes on" : "is refused");
      if (why === "") await requireOnce(bucket, 1, answered);
      else expect([damaged.slice(0, 200), why]).toEqual([expect.anything(), refused]);
      bucket.objects = before;
      bucket.checkpoints.length = known;
    }
    expect([...outcomes].toSorted()).toEqual(["goes on", "is refused"]);
  });

  test("opens no log of another origin, and none under another KEK", async () => {
    const bucket = new MemoryBucket();
    await filled(bucket, 3);
    const other = start(bucket, { keks: [await createKek("k1")] });
    expect(await refusal(other)).toContain("compare the value of KEK");
    const moved = new MemoryBucket();
    for (const [path, object] of bucket.objects) moved.objects.set(`1/${path}`, object);
    const process = start(moved, { shards: 2, firstShard: 1 });
    expect(await refusal(process)).toContain("the key of the log does not open");
  });
});

const refused = expect.stringMatching(
  /takes no entry: the log log\.test\/2026\/0 does not go on: /,
);

/** The text with each of its values in turn replaced by values of any kind, or taken away. */
function damagedTexts(text: string): readonly string[] {
  const values = [undefined, null, -1, 256, 2 ** 53 - 256, 1.5, "", "e30=", {}];
  const places: (readonly string[])[] = [];
  const walk = (value: unknown, path: readonly string[]): void => {
    if (path.length > 0) places.push(path);
    if (typeof value !== "object" || value === null) return;
    for (const [name, member] of Object.entries(value)) walk(member, [...path, name]);
  };
  walk(JSON.parse(text), []);
  return places.flatMap((path) =>
    values.map((value) => {
      const root = JSON.parse(text);
      const last = path.at(-1) ?? "";
      const parent = path.slice(0, -1).reduce((each, name) => each[name], root);
      if (value === undefined) delete parent[last];
      else parent[last] = value;
      return JSON.stringify(root);
    }),
  );
}

test("of processes whose clocks differ, that one begins the log on whose clock it is the day, and all append", async () => {
  const bucket = new MemoryBucket();
  const [early, ahead] = [start(bucket), start(bucket, { today: "2026-11-22" })];
  const behind = start(bucket, { today: "2026-11-20" });
  const answered: Answered = new Map();
  for (const each of [ahead, behind]) {
    await appendAll(each, ["too soon"], answered);
    expect(each.log.issuanceLog.refusal()).toContain("today is not its inception");
  }
  for (const each of [early, ahead, behind, early]) {
    await appendAll(each, [`entry ${answered.size}`], answered);
    expect(each.log.issuanceLog.refusal()).toBeUndefined();
  }
  expect(answered.size).toBe(4);
  await requireOnce(bucket, 1, answered);
});

test("a publication ends while entries come, which the next one publishes", async () => {
  const bucket = new MemoryBucket();
  const one = await filled(bucket, 10);
  await one.append("staged");
  const before = bucket.checkpoints.length;
  let isPublishing = true;
  const publishing = one.publish().then(() => {
    isPublishing = false;
  });
  let count = 0;
  while (isPublishing && count < 500) await one.append(`meanwhile ${count++}`);
  await publishing;
  expect(count).toBeLessThan(500);
  expect(bucket.checkpoints.length - before).toBe(1);
});

describe("shards", () => {
  test("are published all by a process without timers, and those without entries begin", async () => {
    const bucket = new MemoryBucket();
    const [one, two] = [0, 1].map((firstShard) => start(bucket, { shards: 3, firstShard }));
    await one?.append("one");
    await two?.append("two");
    await one?.publish();
    expect([...(await audit(bucket, 3)).values()]).toEqual([["one"], ["two"], []]);
  });

  test("each process keeps its own, and two that share one part", async () => {
    const bucket = new MemoryBucket();
    await start(bucket, { shards: 3 }).publish();
    const [one, two, three] = [0, 0, 2].map((firstShard) =>
      start(bucket, { shards: 3, firstShard }),
    );
    const answered: Answered = new Map();
    let apart = 0;
    for (let i = 0; apart < 20; i++) {
      expect(i).toBeLessThan(2000);
      const round = [one, two, three].map(async (each, n) => {
        if (each) await appendAll(each, [`${n}/${i}`], answered);
        return answered.get(`${n}/${i}`)?.origin;
      });
      apart = new Set(await Promise.all(round)).size === 3 ? apart + 1 : 0;
    }
    await requireOnce(bucket, 3, answered);
  });

  test("what a process has left for good, another publishes", async () => {
    const bucket = new MemoryBucket();
    await start(bucket, { shards: 2 }).publish();
    const leaving = start(bucket, { shards: 2, firstShard: 1 });
    const answered: Answered = new Map();
    await appendAll(leaving, ["a", "b", "c"], answered);
    leaving.kill();
    const staying = start(bucket, { shards: 2, firstShard: 0 });
    await staying.log.finishOthers();
    expect((await audit(bucket, 2)).get(`${origin}/1`)).toEqual([]);
    await staying.log.finishOthers();
    expect((await audit(bucket, 2)).get(`${origin}/1`)?.toSorted()).toEqual(["a", "b", "c"]);
  });

  test("what a process has left is published once the key service that was away is back", async () => {
    const bucket = new MemoryBucket();
    await start(bucket, { shards: 2 }).publish();
    const leaving = start(bucket, { shards: 2, firstShard: 1 });
    await appendAll(leaving, ["a"], new Map());
    leaving.kill();
    let isAway = true;
    const hold = (): void => {
      if (isAway) throw new CaError({ reason: "kek-unavailable" }, "the KEK is not open");
    };
    const staying = start(bucket, { shards: 2, firstShard: 0, hold });
    await staying.log.finishOthers();
    await staying.log.finishOthers();
    expect(staying.log.issuanceLog.troubles()).toEqual([]);
    isAway = false;
    await staying.log.finishOthers();
    expect((await audit(bucket, 2)).get(`${origin}/1`)).toEqual(["a"]);
  });

  test("a shard of another that cannot be finished is a trouble, until it can", async () => {
    const bucket = new MemoryBucket();
    const staying = start(bucket, { shards: 2, firstShard: 0 });
    await staying.publish();
    const before = new Map(bucket.objects);
    const leaving = start(bucket, { shards: 2, firstShard: 1 });
    await appendAll(leaving, ["a"], new Map());
    leaving.kill();
    await staying.publish();
    const after = bucket.objects;
    bucket.objects = before;
    for (let looks = 0; looks < 2; looks++) await staying.log.finishOthers();
    const { issuanceLog } = staying.log;
    const why = `the log ${origin}/1 does not go on: it lacks entries that it had`;
    expect(issuanceLog.troubles().join()).toContain(why);
    expect(issuanceLog.refusal()).toBeUndefined();
    bucket.objects = after;
    await staying.log.finishOthers();
    expect(issuanceLog.troubles()).toEqual([]);
  });
});
