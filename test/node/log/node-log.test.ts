import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { LogConfiguration } from "../../../src/config/optional-parts.ts";
import type { KekRing } from "../../../src/custody/kek.ts";
import { CaError, OperatorError } from "../../../src/foundation/errors.ts";
import { logDirectory, NodeLog } from "../../../src/node/log/node-log.ts";
import { describeIssuanceLog } from "../../contract/log/issuance-log.ts";
import { logOrigin, readerToken } from "../../contract/log/log-values.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { createKek } from "../../testkit/pki/sealed-record.ts";
import { lastingFolder, temporaryFolder } from "../../testkit/temporary-folder.ts";
import { logConfiguration } from "../../testkit/tlog/log-configuration.ts";
import { entryAt } from "../../testkit/tlog/trees.ts";

const kek = await createKek("k1");
const day = "2026-11-21";
const signal = new AbortController().signal;

const configuration: LogConfiguration = logConfiguration({
  origin: logOrigin,
  inceptionDate: day,
  intervalSeconds: 10,
  readers: [readerToken],
});

/** A log whose publications the test starts. */
async function openLog(
  storeDirectory: string,
  {
    keks = [kek] as KekRing,
    today = day,
    shard = 0,
    hold = (): Promise<void> | undefined => undefined,
  } = {},
) {
  const log = createEventRecorder();
  let turn = Promise.withResolvers<void>();
  const paused: (() => void)[] = [];
  const opened = await NodeLog.open({
    storeDirectory,
    configuration,
    shard,
    trustDomain: clusterLocal,
    keks: { hold, ring: () => keks },
    log,
    clock: () => new Date(`${today}T12:00:00Z`),
    pause: async (_, ending) => {
      for (const resolve of paused.splice(0)) resolve();
      ending?.addEventListener("abort", () => turn.resolve());
      if (!ending?.aborted) await turn.promise;
      turn = Promise.withResolvers();
    },
  });
  const publish = async (): Promise<void> => {
    const done = new Promise<void>((resolve) => paused.push(resolve));
    turn.resolve();
    await done;
  };
  return { ...opened, log, publish };
}

describeIssuanceLog(async () => {
  const folder = await lastingFolder();
  const key = await createTokenKey("ES256", "k1");
  const ISSUERS = [{ ...issuerTables.cluster, jwks: jwksOf(key) }];
  const log = await openLog(folder);
  const means = {
    issuanceLog: log.issuanceLog,
    publishedLog: log.publishedLog,
    hasNoNamesake: true,
  };
  const ca = await startCa({ ISSUERS, KEK: randomKek("k2") }, means);
  await ca.found();
  return {
    send: async (request) => ca.app.fetch(request),
    key,
    now: ca.now,
    takeAudits: () => ca.log.audits.splice(0),
    publish: log.publish,
  };
});

const append = (log: Pick<NodeLog, "issuanceLog">, i: number) =>
  log.issuanceLog.append(entryAt(i) as Uint8Array<ArrayBuffer>, signal);

async function filled(folder: string, count = 3): Promise<void> {
  const log = await openLog(folder);
  for (let i = 0; i < count; i++) await append(log, i);
  await log.end();
}

test("continues where it ended, and publishes when it is closed", async () => {
  const folder = await temporaryFolder();
  await filled(folder);
  const log = await openLog(folder, { today: "2026-12-24" });
  expect(await append(log, 3)).toEqual({ origin: `${logOrigin}/0`, index: 3 });
  await log.end();
  await log.end();
});

test("has one writer", async () => {
  const folder = await temporaryFolder();
  const log = await openLog(folder);
  onTestFinished(() => log.end());
  const second = openLog(folder);
  await expect(second).rejects.toThrow(OperatorError);
  await expect(second).rejects.toThrow("another process writes it");
  const other = await openLog(folder, { shard: 1 });
  expect(await append(other, 0)).toEqual({ origin: `${logOrigin}/1`, index: 0 });
  expect((await log.publishedLog.shards()).map(({ shard }) => shard)).toEqual(["0", "1"]);
  await other.end();
});

test("seals its key anew under the newest KEK, and opens without the older one then", async () => {
  const folder = await temporaryFolder();
  await filled(folder);
  const newer = await createKek("k2");
  await (await openLog(folder, { keks: [newer, kek] })).end();
  await (await openLog(folder, { keks: [newer] })).end();
  await expect(openLog(folder, { keks: [kek] })).rejects.toThrow(
    "key of the log does not open: compare the value of KEK",
  );
});

test("begins on the day of its inception alone", async () => {
  const folder = await temporaryFolder();
  await expect(openLog(folder, { today: "2026-11-22" })).rejects.toThrow("not its inception");
  // The refused one has left the lock of its stage.
  await (await openLog(folder)).end();
});

const folderOf = (store: string) => join(logDirectory(store, logOrigin), "0");

test.each<[string, (folder: string) => Promise<void>]>([
  ["the stage is gone", (folder) => rm(join(folder, "stage.sqlite"))],
  ["the checkpoint is gone", (folder) => rm(join(folder, "public/checkpoint"))],
  ["the stage is no database", (folder) => writeFile(join(folder, "stage.sqlite"), "none")],
  [
    "the checkpoint is changed",
    async (folder) => {
      const file = join(folder, "public/checkpoint");
      await writeFile(file, (await readFile(file, "utf8")).replace("\n3\n", "\n2\n"));
    },
  ],
])("refuses to start when %s", async (_, spoil) => {
  const folder = await temporaryFolder();
  await filled(folder);
  await spoil(folderOf(folder));
  await expect(openLog(folder)).rejects.toThrow(OperatorError);
});

test("refuses to start from an older copy of its stage", async () => {
  const folder = await temporaryFolder();
  await filled(folder);
  const stage = join(folderOf(folder), "stage.sqlite");
  const copy = await readFile(stage);
  const log = await openLog(folder);
  await append(log, 3);
  await log.end();
  await writeFile(stage, copy);
  await expect(openLog(folder)).rejects.toThrow("one was rolled back");
});

test("opens once its key service is back, and takes no entry before", async () => {
  let isAway = true;
  const log = await openLog(await temporaryFolder(), {
    hold: async () => {
      if (isAway) throw new CaError({ reason: "kek-unavailable" }, "the KEK is not open");
    },
  });
  onTestFinished(() => log.end());
  await expect(append(log, 0)).rejects.toThrow("the KEK is not open");
  expect(log.issuanceLog.troubles()).toEqual([expect.stringContaining("takes no entry")]);
  isAway = false;
  expect(await append(log, 0)).toMatchObject({ index: 0 });
  await log.publish();
  expect(log.issuanceLog.troubles()).toEqual([]);
});

test("shows the shards of all processes in the order of their numbers", async () => {
  const folder = await temporaryFolder();
  const logs = await Promise.all([10, 2, 0].map((shard) => openLog(folder, { shard })));
  onTestFinished(async () => void (await Promise.all(logs.map((each) => each.end()))));
  const [{ issuanceLog, publishedLog }] = logs as [Awaited<ReturnType<typeof openLog>>];
  const ca = await startCa({}, { issuanceLog, publishedLog });
  const headers = { authorization: `Bearer ${readerToken}` };
  const shards = await (await ca.app.request("https://ca.test/log/logs.json", { headers })).json();
  expect(shards.map(({ shard }: { shard: string }) => shard)).toEqual(["0", "2", "10"]);
});

test("reports that it cannot publish, and publishes once it can", async () => {
  const folder = await temporaryFolder();
  const log = await openLog(folder);
  onTestFinished(() => log.end());
  await append(log, 0);
  const blocked = join(folderOf(folder), "public/tile");
  await writeFile(blocked, "in the way");
  await log.publish();
  expect(log.issuanceLog.troubles()).toEqual([
    expect.stringMatching(/^the issuance log is not published \(E[A-Z]+\)$/),
  ]);
  expect(log.log.operations.at(-1)).toMatchObject({ event: "log-not-published", level: "error" });
  await rm(blocked);
  await log.publish();
  expect(log.issuanceLog.troubles()).toEqual([]);
});
