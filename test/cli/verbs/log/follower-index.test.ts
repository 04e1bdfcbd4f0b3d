import { once } from "node:events";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { type SearchFields, searchQuery } from "../../../../src/cli/verbs/log/entry.ts";
import { FollowerIndex } from "../../../../src/cli/verbs/log/follower-index.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const instant = "2026-11-22T12:00:00.000Z";

function planOf(fields: SearchFields, index = new FollowerIndex()): string {
  const { sql, values } = searchQuery(fields, 20);
  const steps = index.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values);
  return steps.map(({ detail }) => detail).join("; ");
}

/** Each way of asking, and the terms that bound what SQLite reads of a million entries. */
const bounded: readonly (readonly [SearchFields, string])[] = [
  [{ spiffeId: "spiffe://a/b" }, "spiffeId=?"],
  [{ serial: "1a" }, "serial=?"],
  [{ cluster: "prod-1" }, "cluster=?"],
  [{ node: "worker-3" }, "node=?"],
  [{ tokenId: "718e4bf9" }, "tokenId=?"],
  [{ since: instant }, "at>?"],
  [{ until: instant }, "at<?"],
  [{ since: instant, until: instant }, "at>? AND at<?"],
  [{ cluster: "prod-1", since: instant }, "cluster=? AND at>?"],
  [{ node: "worker-3", until: instant }, "node=? AND at<?"],
];

test.each(bounded)("a search by %j reads an index alone, and sorts nothing", (fields, terms) => {
  const plan = planOf(fields);
  expect(plan).toMatch(/^SEARCH entry USING INDEX \w+ \([^()]*\)$/);
  expect(plan).toContain(`(${terms})`);
});

test("a copy has its indexes after its first step, and where that failed", async () => {
  for (const work of [async () => {}, () => Promise.reject(new Error("the log does not hold"))]) {
    const index = new FollowerIndex();
    await index.transaction(work).catch(() => {});
    for (const [fields, terms] of bounded) expect(planOf(fields, index)).toContain(`(${terms})`);
  }
});

test("the newest entries come by an index, too", () => {
  expect(planOf({})).toBe("SCAN entry USING INDEX entry_at");
});

const names = { spiffeId: "spiffe://a/b", isAuthority: false };

/** Appends an entry for each serial number, as an older version spells them. */
function append(index: FollowerIndex, ...serials: readonly string[]): void {
  const first = [...index.from(0)].length;
  serials.forEach((serial, i) => {
    const certificate = { at: instant, notAfter: instant, ...names, serial };
    index.addEntry(first + i, new Uint8Array(1), certificate);
  });
}

/** A copy that an older version has made. @returns Its folder. */
async function olderCopy(...serials: readonly string[]): Promise<string> {
  const folder = await temporaryFolder();
  using index = new FollowerIndex(folder);
  const database = new DatabaseSync(`${folder}/log.sqlite`);
  database.exec(`
    PRAGMA user_version = 0;
    DROP TRIGGER IF EXISTS entry_serial;
    DROP INDEX entry_cluster_at;
    CREATE INDEX entry_cluster ON entry (cluster, idx);
  `);
  database.close();
  append(index, ...serials);
  return folder;
}

test("a copy that an older version has made gets the same indexes", async () => {
  using index = new FollowerIndex(await olderCopy());
  expect(planOf({ cluster: "prod-1", since: instant }, index)).toContain("(cluster=? AND at>?)");
  expect(planOf({ serial: "01" }, index)).toContain("(serial=?)");
  expect(index.all("SELECT name FROM sqlite_master WHERE name = 'entry_cluster'")).toEqual([]);
});

test("a copy that an older version has made gets serial numbers of whole octets", async () => {
  const folder = await olderCopy("1b62", "b62", "8");
  using index = new FollowerIndex(folder);
  expect([...index.from(0)].map(({ serial }) => serial)).toEqual(["1b62", "0b62", "08"]);
  expect(index.search({ serial: "0b62" }, 2)).toHaveLength(1);
  expect(index.search({ serial: "b62" }, 2)).toEqual([]);
});

test("an older version may go on to append to a copy that was brought up to date", async () => {
  using older = new FollowerIndex(await olderCopy("b62"));
  append(older, "1b6", "1b62");
  expect([...older.from(0)].map(({ serial }) => serial)).toEqual(["0b62", "01b6", "1b62"]);
  expect(older.search({ serial: "01b6" }, 2)).toHaveLength(1);
});

test("a copy that another process writes is opened as soon as that has ended", async () => {
  const folder = await olderCopy("b62");
  const held = new SharedArrayBuffer(4);
  const source = `
    const { DatabaseSync } = require("node:sqlite");
    const { parentPort, workerData: { folder, held } } = require("node:worker_threads");
    const database = new DatabaseSync(folder + "/log.sqlite");
    database.exec("BEGIN IMMEDIATE");
    parentPort.postMessage("locked");
    Atomics.wait(new Int32Array(held), 0, 0, 100);
    database.exec("COMMIT");
    database.close();
  `;
  const writer = new Worker(source, { eval: true, workerData: { folder, held } });
  const ended = once(writer, "exit");
  await once(writer, "message");
  using index = new FollowerIndex(folder);
  expect(index.search({ serial: "0b62" }, 2)).toHaveLength(1);
  await ended;
});

test("a copy is brought up to date once, and one of a later version is left alone", async () => {
  const folder = await olderCopy("b62");
  const database = new DatabaseSync(`${folder}/log.sqlite`);
  database.exec("PRAGMA user_version = 9");
  using index = new FollowerIndex(folder);
  expect(index.search({ serial: "b62" }, 2)).toHaveLength(1);
  database.close();
});
