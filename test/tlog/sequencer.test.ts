import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ObjectReader } from "../../src/tlog/extend.ts";
import { Frontier } from "../../src/tlog/frontier.ts";
import { openCheckpointText } from "../../src/tlog/note/checkpoint.ts";
import { VerifierKey } from "../../src/tlog/note/verifier-key.ts";
import { formatHead, LogRefusal, signCheckpoint } from "../../src/tlog/sequencer/open-log.ts";
import { maximumWaiting, Sequencer } from "../../src/tlog/sequencer/sequencer.ts";
import { Tile } from "../../src/tlog/tile.ts";
import { type MemoryObjects, memoryKeys, memoryParts } from "../testkit/tlog/memory-log.ts";
import { entryAt } from "../testkit/tlog/trees.ts";

const appendMany = (log: Sequencer, from: number, count: number) =>
  Promise.all(Array.from({ length: count }, (_, i) => log.append(entryAt(from + i))));

/** Reads everything that is published, and verifies it. */
async function entriesOf(objects: MemoryObjects, vkey: string): Promise<string[]> {
  const key = VerifierKey.parse(vkey);
  const entries: string[] = [];
  let frontier = Frontier.empty();
  for (const text of objects.checkpoints) {
    const checkpoint = await openCheckpointText(text, key);
    frontier = await ObjectReader.extend(frontier, checkpoint, objects.read, (_, entry) =>
      entries.push(new TextDecoder().decode(entry)),
    );
  }
  return entries;
}

/** A log in memory that nobody has written to. */
async function opened() {
  const parts = memoryParts();
  return { parts, log: await Sequencer.open(parts) };
}

/** Has a log publish until one of so many writes fails, as the last one or before it. */
async function publishUntilKilled(
  log: Sequencer,
  { saboteur }: ReturnType<typeof memoryParts>,
  writes: number,
  takesEffect: boolean,
): Promise<unknown> {
  saboteur.arm(writes, takesEffect);
  const error = await log.publish().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  saboteur.disarm();
  return error;
}

const vkeyOf = (log: Sequencer): string => log.verifierKey ?? "";

test("gives every entry the next index, and publishes all of them", async () => {
  const {
    parts: { objects },
    log,
  } = await opened();
  expect(await appendMany(log, 0, 3)).toEqual([{ index: 0 }, { index: 1 }, { index: 2 }]);
  await log.publish();
  expect(await log.append(entryAt(3))).toEqual({ index: 3 });
  expect(log.isBehind).toBe(true);
  await log.publish();
  expect(log.isBehind).toBe(false);
  expect(await entriesOf(objects, vkeyOf(log))).toEqual([0, 1, 2, 3].map((i) => `entry ${i}`));
});

test("commits what waits together as one batch", async () => {
  const { parts, log } = await opened();
  await appendMany(log, 0, 64);
  await appendMany(log, 64, 1);
  expect(parts.stage.rows.map(({ count }) => count)).toEqual([64, 1]);
});

test("forgets staged entries whose bundle is full, and keeps those of the partial one", async () => {
  const { parts, log } = await opened();
  await appendMany(log, 0, 200);
  await appendMany(log, 200, 100);
  await appendMany(log, 300, 100);
  await log.publish();
  expect(parts.stage.rows.map(({ first }) => first)).toEqual([200, 300]);
  await appendMany(log, 400, 112);
  await log.publish();
  expect(parts.stage.rows).toEqual([]);
  expect(await entriesOf(parts.objects, vkeyOf(log))).toHaveLength(512);
});

test("publishes a backlog in parts, six objects at once, and lets other work run amid", async () => {
  let [turns, open, most] = [0, 0, 0];
  const parts = memoryParts({ yieldTurn: async () => void turns++ });
  const { objects } = parts;
  const create = objects.create.bind(objects);
  objects.create = async (...object) => {
    most = Math.max(most, ++open);
    return create(...object).finally(() => open--);
  };
  const log = await Sequencer.open(parts);
  for (let i = 0; i < 12; i++) await appendMany(log, 1500 * i, 1500);
  await log.publish();
  expect(objects.checkpoints).toHaveLength(3);
  expect(await entriesOf(objects, vkeyOf(log))).toHaveLength(18_000);
  expect([most, turns >= 12]).toEqual([6, true]);
});

test("publishes nothing while nothing is new", async () => {
  const { parts, log } = await opened();
  await log.publish();
  expect(parts.objects.checkpoints).toHaveLength(1);
});

test("goes on with the same key after a restart", async () => {
  const parts = memoryParts();
  const first = await Sequencer.open(parts);
  await appendMany(first, 0, 10);
  const second = await Sequencer.open(parts);
  expect(vkeyOf(second)).toBe(vkeyOf(first));
  expect(await second.append(entryAt(10))).toEqual({ index: 10 });
  await second.publish();
  expect(await entriesOf(parts.objects, vkeyOf(second))).toHaveLength(11);
  const anew = { record: "sealed anew" };
  const open = async (record: string) => ({ ...(await parts.keys.open(record)), ...anew });
  await Sequencer.open({ ...parts, keys: { ...parts.keys, open } });
  expect(parts.stage.texts()?.key).toBe("sealed anew");
});

test("leaves the entries that come while it publishes to the next publication", async () => {
  const {
    parts: { objects },
    log,
  } = await opened();
  const replace = objects.replace.bind(objects);
  let next = 0;
  objects.replace = async (...object) => {
    if (next < 9) await log.append(entryAt(next++));
    return replace(...object);
  };
  await log.append(entryAt(next++));
  await log.publish();
  expect(objects.checkpoints).toHaveLength(2);
  expect(log.isBehind).toBe(true);
});

test("begins under an origin without a scheme alone, and goes on under any", async () => {
  const parts = memoryParts();
  const origin = "https://log.example.com/2026";
  const withScheme = { ...parts, origin, keys: memoryKeys(origin) };
  const refused = "a new log takes LOG_ORIGIN without https://";
  await expect(Sequencer.open(withScheme)).rejects.toThrow(refused);
  expect(parts.objects.checkpoints).toEqual([]);
  const { signer, record } = await withScheme.keys.create();
  const begun = await signCheckpoint(signer, origin, Frontier.empty());
  const head = { frontier: Frontier.empty(), settled: begun, signed: begun };
  parts.stage.save({ key: record, head: formatHead(head) });
  await parts.objects.replace(Tile.checkpointPath, new TextEncoder().encode(begun));
  expect(await (await Sequencer.open(withScheme)).append(entryAt(0))).toEqual({ index: 0 });
});

test("is busy when too many wait", async () => {
  const { log } = await opened();
  const results = await appendMany(log, 0, maximumWaiting + 1);
  expect(results.at(-1)).toMatchObject({ refused: "busy" });
  expect(results.at(-2)).toEqual({ index: maximumWaiting - 1 });
});

test("is busy by what waits, and not by what has had its place", async () => {
  const { log } = await opened();
  const long = new Uint8Array(60_000);
  for (let i = 0; i < 20; i++) expect(await log.append(long)).toEqual({ index: i });
});

test("refuses an entry that no bundle can hold", async () => {
  const log = await Sequencer.open(memoryParts());
  expect(await log.append(new Uint8Array(65_536))).toMatchObject({ refused: "failed" });
});

test("adds what witnesses have signed to the published checkpoint", async () => {
  const asked: string[] = [];
  const parts = memoryParts({
    askWitnesses: async (checkpoint) => {
      asked.push(checkpoint);
      return [{ name: "w1", keyId: new Uint8Array(4), signature: new Uint8Array(72) }];
    },
  });
  const log = await Sequencer.open(parts);
  await appendMany(log, 0, 1);
  await log.publish();
  expect(parts.objects.checkpoints.at(-1)).toContain("— w1 AAAA");
  expect(parts.objects.checkpoints.at(-1)?.startsWith(asked[0] ?? "?")).toBe(true);
});

test("tells a failed commit, and goes on", async () => {
  const { parts, log } = await opened();
  parts.saboteur.arm(1, true);
  expect(await log.append(entryAt(0))).toEqual({ refused: "failed", detail: "killed" });
  parts.saboteur.disarm();
  expect(log.failure).toBe("killed");
  expect(await log.append(entryAt(1))).toEqual({ index: 1 });
  expect(log.failure).toBeUndefined();
});

test("knows that the stage takes nothing, until it does again", async () => {
  const { parts, log } = await opened();
  parts.saboteur.arm(1, false);
  log.probe();
  expect(log.failure).toBeUndefined();
  await log.append(entryAt(0));
  expect(log.failure).toBe("killed");
  log.probe();
  expect(log.failure).toBe("killed");
  parts.saboteur.disarm();
  log.probe();
  expect(log.failure).toBeUndefined();
  expect(await log.append(entryAt(1))).toEqual({ index: 0 });
});

test("an entry that is too long says nothing about the stage", async () => {
  const log = await Sequencer.open(memoryParts());
  await log.append(new Uint8Array(65_536));
  expect(log.failure).toBeUndefined();
});

describe("a named entry", () => {
  const ca = (name: string) => ({ name, entry: new TextEncoder().encode(name) });

  test("comes before the first entry that brings it, and once", async () => {
    const { parts, log } = await opened();
    const results = await Promise.all([
      log.append(entryAt(0), [ca("a"), ca("b")]),
      log.append(entryAt(1), [ca("a"), ca("b")]),
    ]);
    expect(results).toEqual([{ index: 2 }, { index: 3 }]);
    expect(await log.append(entryAt(2), [ca("b"), ca("c")])).toEqual({ index: 5 });
    await log.publish();
    expect(await entriesOf(parts.objects, vkeyOf(log))).toEqual([
      "a",
      "b",
      "entry 0",
      "entry 1",
      "c",
      "entry 2",
    ]);
  });

  test("is known after a restart", async () => {
    const parts = memoryParts();
    await (await Sequencer.open(parts)).append(entryAt(0), [ca("a")]);
    const log = await Sequencer.open(parts);
    expect(await log.append(entryAt(1), [ca("a")])).toEqual({ index: 2 });
    expect(await log.append(entryAt(2), [ca("b")])).toEqual({ index: 4 });
    const later = await Sequencer.open(parts);
    expect(await later.append(entryAt(3), [ca("a"), ca("b")])).toEqual({ index: 5 });
  });

  test.each([
    ["its commit", 1],
    ["the note of it", 2],
  ])("comes again when %s failed", async (_, writes) => {
    const { parts, log } = await opened();
    const vkey = vkeyOf(log);
    parts.saboteur.arm(writes, false);
    expect(await log.append(entryAt(0), [ca("a")])).toMatchObject({ refused: "failed" });
    parts.saboteur.disarm();
    const { index } = (await log.append(entryAt(1), [ca("a")])) as { index: number };
    await log.publish();
    const entries = await entriesOf(parts.objects, vkey);
    expect(entries.slice(index - 1)).toEqual(["a", "entry 1"]);
  });

  test("is refused with its entry when no bundle can hold it", async () => {
    const log = await Sequencer.open(memoryParts());
    const long = { name: "a", entry: new Uint8Array(65_536) };
    // What comes at the same time is not refused with it.
    const [refused, appended] = [log.append(entryAt(0), [long]), log.append(entryAt(1))];
    expect(await refused).toMatchObject({ refused: "failed" });
    expect(await appended).toEqual({ index: 0 });
    expect(await log.append(entryAt(0), [ca("a")])).toEqual({ index: 2 });
  });

  test("has a place among those that wait, as any other", async () => {
    const log = await Sequencer.open(memoryParts());
    const named = Array.from({ length: 20 }, (_, i) => ({
      name: `${i}`,
      entry: new Uint8Array(60_000),
    }));
    const [first, second] = [log.append(entryAt(0), named), log.append(entryAt(1))];
    expect(await first).toEqual({ index: 20 });
    expect(await second).toMatchObject({ refused: "busy" });
  });
});

describe("killed at any step", () => {
  type Step = { append: number } | { publish: true } | { kill: number; takesEffect: boolean };
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({ append: fc.integer({ min: 1, max: 150 }) }),
    fc.constant({ publish: true } as const),
    fc.record({ kill: fc.integer({ min: 1, max: 12 }), takesEffect: fc.boolean() }),
  );

  test("has every answered entry at its index, and one history", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 25 }), async (steps) => {
        const parts = memoryParts();
        const answered = new Map<number, string>();
        let log = await Sequencer.open(parts);
        const vkey = vkeyOf(log);
        let made = 0;
        for (const each of steps) {
          if ("kill" in each) {
            parts.saboteur.arm(each.kill, each.takesEffect);
            await log.publish().catch(() => {});
            await log.append(entryAt(made++));
            parts.saboteur.disarm();
            log = await Sequencer.open(parts);
            continue;
          }
          if ("publish" in each) await log.publish();
          else {
            const from = made;
            made += each.append;
            for (const [i, result] of (await appendMany(log, from, each.append)).entries()) {
              if ("index" in result) answered.set(result.index, `entry ${from + i}`);
            }
          }
        }
        await log.publish();
        const entries = await entriesOf(parts.objects, vkey);
        for (const [index, entry] of answered) expect(entries[index]).toBe(entry);
      }),
      { numRuns: 30 },
    );
  });

  test("finishes the tree that it has signed before it signs another, wherever it is killed twice", async () => {
    for (let first = 1; first < 8; first++) {
      for (let second = 1; second < 8; second++) {
        const parts = memoryParts();
        const vkey = vkeyOf(await Sequencer.open(parts));
        for (const [i, writes] of [first, second].entries()) {
          const log = await Sequencer.open(parts);
          await appendMany(log, 10 * i, 3);
          await publishUntilKilled(log, parts, writes, true);
        }
        const log = await Sequencer.open(parts);
        await log.publish();
        expect(await entriesOf(parts.objects, vkey), `${first}, ${second}`).toHaveLength(6);
      }
    }
  });

  test("goes on where it was killed before its first checkpoint was there, and again as it published", async () => {
    for (let writes = 1; writes < 8; writes++) {
      const parts = memoryParts();
      parts.saboteur.arm(2, false);
      await expect(Sequencer.open(parts)).rejects.toThrow("killed");
      expect(parts.objects.checkpoints).toEqual([]);
      parts.saboteur.disarm();
      const begun = await Sequencer.open(parts);
      await appendMany(begun, 0, 3);
      await publishUntilKilled(begun, parts, writes, true);
      const log = await Sequencer.open(parts);
      await log.publish();
      expect(await entriesOf(parts.objects, vkeyOf(log)), `${writes}`).toHaveLength(3);
    }
  });

  test("reads its storage anew after a failed publication, without a restart", async () => {
    for (let writes = 1; writes < 9; writes++) {
      const { parts, log } = await opened();
      const vkey = vkeyOf(log);
      await appendMany(log, 0, 300);
      const error = await publishUntilKilled(log, parts, writes, writes % 2 === 0);
      expect(log.isBehind).toBe(error !== undefined);
      // No reader sees a checkpoint before all of its objects, whichever write was the last.
      await entriesOf(parts.objects, vkey);
      await appendMany(log, 300, 5);
      await log.publish();
      expect(await entriesOf(parts.objects, vkey)).toHaveLength(305);
    }
  });
});

describe("refuses to go on", () => {
  const prepared = async () => {
    const { parts, log } = await opened();
    await appendMany(log, 0, 300);
    await log.publish();
    const before = {
      rows: [...parts.stage.rows],
      kept: parts.stage.kept,
      stored: new Map(parts.objects.stored),
    };
    await appendMany(log, 300, 50);
    await log.publish();
    await appendMany(log, 350, 5);
    return { parts, before };
  };

  type Prepared = Awaited<ReturnType<typeof prepared>>;

  test.each<[string, (prepared: Prepared) => unknown, string?]>([
    [
      "the stage is empty and a checkpoint is published",
      ({ parts }) => Object.assign(parts.stage, { kept: undefined }),
    ],
    [
      "the stage was rolled back",
      ({ parts: { stage }, before: { rows, kept } }) => Object.assign(stage, { rows, kept }),
      "one was rolled back",
    ],
    [
      "the publication was rolled back",
      ({ parts: { objects }, before: { stored } }) =>
        objects.stored.set("checkpoint", stored.get("checkpoint") ?? Uint8Array.of()),
      "one was rolled back",
    ],
    ["the published checkpoint is gone", ({ parts }) => parts.objects.stored.delete("checkpoint")],
    ["staged entries are missing", ({ parts }) => parts.stage.rows.shift()],
    [
      "an entry has changed that no checkpoint has yet",
      ({ parts: { stage } }) => {
        const [last] = stage.rows.splice(-1);
        if (last)
          stage.rows.push({ ...last, octets: last.octets.with(-1, (last.octets.at(-1) ?? 0) ^ 1) });
      },
    ],
    [
      "the checkpoint is another log's",
      async ({ parts }) => {
        const stranger =
          (await prepared()).parts.objects.stored.get("checkpoint") ?? Uint8Array.of();
        parts.objects.stored.set("checkpoint", stranger);
      },
    ],
  ])("when %s", async (_, change, words = "") => {
    const state = await prepared();
    await change(state);
    const opening = Sequencer.open(state.parts);
    await expect(opening).rejects.toBeInstanceOf(LogRefusal);
    await expect(opening).rejects.toThrow(words);
  });

  test("when it may not begin", async () => {
    const parts = memoryParts({ mayBegin: () => false });
    await expect(Sequencer.open(parts)).rejects.toThrow(LogRefusal);
  });

  test("to begin anew in storage that was emptied under it", async () => {
    const { parts, log } = await opened();
    await appendMany(log, 0, 3);
    expect(await publishUntilKilled(log, parts, 1, false)).toEqual(new Error("killed"));
    Object.assign(parts.stage, { rows: [], kept: undefined });
    parts.objects.stored.clear();
    await expect(log.publish()).rejects.toThrow(LogRefusal);
    expect(parts.objects.stored.size).toBe(0);
  });

  test("when the stage was rolled back and has grown to the size that is published", async () => {
    const { parts, before } = await prepared();
    const later = await Sequencer.open(parts);
    await later.publish();
    const published = parts.objects.stored.get("checkpoint") ?? new Uint8Array();
    parts.stage.rows = before.rows;
    parts.stage.kept = before.kept;
    parts.objects.stored.clear();
    for (const [path, octets] of before.stored) parts.objects.stored.set(path, octets);
    const other = await Sequencer.open(parts);
    await appendMany(other, 1000, 55);
    await other.publish();
    parts.objects.stored.set("checkpoint", published);
    await expect(Sequencer.open(parts)).rejects.toThrow("355 entries is published");
  });

  test("to publish over an object with other octets", async () => {
    const { parts } = await prepared();
    const log = await Sequencer.open(parts);
    parts.objects.stored.set("tile/entries/001.p/99", Uint8Array.of(1));
    parts.objects.stored.set("tile/0/001.p/99", Uint8Array.of(1));
    await expect(log.publish()).rejects.toThrow("with other octets");
    await expect(log.publish()).rejects.toThrow("with other octets");
  });

  test("and takes no entry after that", async () => {
    const { parts } = await prepared();
    const log = await Sequencer.open(parts);
    await log.append(entryAt(355));
    parts.objects.stored.delete("checkpoint");
    expect(await publishUntilKilled(log, parts, 1, false)).toEqual(new Error("killed"));
    await expect(log.publish()).rejects.toThrow(LogRefusal);
    expect(await log.append(entryAt(356))).toMatchObject({ refused: "closed" });
    expect(log.refusal).toContain("does not go on");
    expect(log.isBehind).toBe(false);
  });

  test.each([
    ["that it has signed", 2, "are not those of the signed checkpoint"],
    [
      "of the tree of its partial bundle",
      Number.POSITIVE_INFINITY,
      "the staged entry 0 is missing",
    ],
  ])("when the staged entries are others than those %s", async (_, writes, words) => {
    const { parts, log } = await opened();
    await appendMany(log, 0, 5);
    await publishUntilKilled(log, parts, writes, false);
    const other = memoryParts();
    await appendMany(await Sequencer.open(other), 100, 5);
    parts.stage.rows = other.stage.rows;
    await expect(Sequencer.open(parts)).rejects.toThrow(words);
  });

  test("when any octet of the stage has changed", async () => {
    const { parts } = await prepared();
    const [row] = parts.stage.rows;
    if (!row) throw new Error("no row");
    for (let i = 0; i < row.octets.length; i += 293) {
      const octets = row.octets.slice();
      octets[i] = (octets[i] ?? 0) ^ 1;
      parts.stage.rows = [{ ...row, octets }, ...parts.stage.rows.slice(1)];
      await expect(Sequencer.open(parts), `octet ${i}`).rejects.toThrow(LogRefusal);
    }
  });

  test("when any character of the head has changed", async () => {
    const { parts } = await prepared();
    const { key, head } = parts.stage.kept ?? { key: "", head: "" };
    for (let i = 0; i < head.length; i += 29) {
      const changed = `${head.slice(0, i)}${head[i] === "A" ? "B" : "A"}${head.slice(i + 1)}`;
      parts.stage.kept = { key, head: changed };
      await expect(Sequencer.open(parts), `character ${i}`).rejects.toThrow(LogRefusal);
    }
  });
});

describe("a reader finds", () => {
  const published = async () => {
    const { parts, log } = await opened();
    await appendMany(log, 0, 300);
    await log.publish();
    return { parts, vkey: vkeyOf(log) };
  };

  test("a tree that has shrunk, and one that its own entries do not make", async () => {
    const { parts } = await published();
    const { read } = parts.objects;
    const [whole, none] = [Frontier.empty(), Frontier.empty()];
    for (let i = 0; i < 300; i++) whole.append(parts.hashEntry(entryAt(i)));
    const tree = { size: 300, root: whole.root() };
    await expect(
      ObjectReader.extend(whole, { ...tree, size: 299 }, read, () => {}),
    ).rejects.toThrow("shrunk");
    const other = { ...tree, root: none.root() };
    await expect(ObjectReader.extend(none, other, read, () => {})).rejects.toThrow(
      "do not make the tree",
    );
    expect((await ObjectReader.extend(none, tree, read, () => {})).size).toBe(300);
  });

  test("every changed, missing or cut object", async () => {
    const { parts, vkey } = await published();
    const { stored } = parts.objects;
    for (const [path, octets] of [...stored]) {
      const changed = octets.slice();
      changed[changed.length >> 1] = (changed[changed.length >> 1] ?? 0) ^ 1;
      for (const bad of [changed, octets.slice(0, -1)]) {
        stored.set(path, bad);
        if (path === "checkpoint") parts.objects.checkpoints[1] = new TextDecoder().decode(bad);
        await expect(entriesOf(parts.objects, vkey), path).rejects.toThrow();
      }
      if (path === "checkpoint") {
        parts.objects.checkpoints[1] = new TextDecoder().decode(octets);
      } else {
        stored.delete(path);
        await expect(entriesOf(parts.objects, vkey), path).rejects.toThrow("is not there");
      }
      stored.set(path, octets);
    }
    expect(await entriesOf(parts.objects, vkey)).toHaveLength(300);
  });

  test("partial tiles in the full ones, when a log has deleted them", async () => {
    const { parts, log } = await opened();
    await appendMany(log, 0, 100);
    await log.publish();
    await appendMany(log, 100, 200);
    await log.publish();
    parts.objects.stored.delete("tile/entries/000.p/100");
    parts.objects.stored.delete("tile/0/000.p/100");
    expect(await entriesOf(parts.objects, vkeyOf(log))).toHaveLength(300);
  });
});
