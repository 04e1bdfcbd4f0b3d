import { reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, onTestFinished, test, vi } from "vitest";
import { type OpenPlatformKeys, PlatformKeys } from "../../src/config/platform-keys.ts";
import { logOrigin } from "../contract/log/log-values.ts";
import { awsCredential, awsFault } from "../testkit/key-services/aws-kms.ts";
import { type PlayedKek, playWrappedKek } from "../testkit/key-services/wrapped-kek.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { logValues } from "./runtime/log-values.ts";
import { stageWorker } from "./runtime/staged-worker.ts";
import type { TestedLogShard } from "./runtime/tested-log-shard.ts";

const lines = recordConsoleLines();

/** Isolates of one Worker, whose KEK a service opens. */
function start(kek: PlayedKek, values: object = {}) {
  const worker = stageWorker(
    { KEK: kek.value, KEY_CREDENTIAL_AWSKMS: awsCredential, ...values },
    {
      openKeyCustody: (configuration, means) =>
        PlatformKeys.open(configuration, { ...means, fetch: kek.service.fetch }),
    },
  );
  return {
    ...worker,
    readiness: async () => {
      const response = await worker.get("/readyz");
      return { status: response.status, said: await response.text() };
    },
    call: async () => {
      const answer = await worker.call();
      return "certChain" in answer ? "issued" : JSON.stringify(answer);
    },
  };
}

test("an isolate issues through an outage within its lease, and refuses beyond it", async () => {
  await reset();
  const kek = await playWrappedKek();
  const ca = start(kek);
  await ca.cron();
  expect(await ca.call()).toBe("issued");
  expect(kek.service.asked).toEqual(["Decrypt"]);
  kek.service.fault = awsFault("DisabledException");
  for (let i = 0; i < 11; i++) {
    ca.pass(300);
    expect(await ca.call()).toBe("issued");
  }
  const { status, said } = await ca.readiness();
  expect([status, said]).toEqual([200, expect.stringContaining("has disabled the key")]);
  ca.pass(300);
  expect(await ca.call()).toContain("unavailable");
  await expect(ca.cron()).rejects.toThrow("has disabled the key");
  kek.service.fault = undefined;
  ca.pass(2);
  expect(await ca.call()).toBe("issued");
  expect(lines.join()).toContain('"kek-unavailable"');
  expect(lines.join()).not.toContain(awsCredential);
});

test("an isolate that starts in an outage refuses, and issues after it", async () => {
  await reset();
  const kek = await playWrappedKek();
  const ca = start(kek);
  await ca.cron();
  kek.service.conduct = "is away";
  ca.startIsolate();
  expect((await ca.readiness()).status).toBe(503);
  expect(await ca.call()).toContain("unavailable");
  kek.service.conduct = "works";
  ca.pass(2);
  expect(await ca.call()).toBe("issued");
});

test("a KEK of the Secrets Store counts, and a store that fails is asked again", async () => {
  await reset();
  let isAway = true;
  const KEK = {
    get: async () => {
      if (isAway) throw new Error("secret of the store");
      return `${env["KEK"]}`;
    },
  };
  const ca = start(await playWrappedKek(), { KEK });
  const { status, said } = await ca.readiness();
  expect([status, said]).toEqual([
    503,
    expect.stringContaining("KEK: the Secrets Store does not give it"),
  ]);
  await expect(ca.cron()).rejects.toThrow("does not give it");
  isAway = false;
  await ca.cron();
  expect(await ca.call()).toBe("issued");
  expect(lines.join()).not.toContain("secret of the store");
});

test("the Worker that is smaller says which main module it takes", async () => {
  const kek = await playWrappedKek();
  const response = await stageWorker({ KEK: kek.value }).get("/readyz");
  expect(await response.text()).toContain("needs main = src/worker/main-with-keys.ts");
});

test("a shard of the log that starts in an outage asks for its KEK in turns, and takes entries after it; none waits for a renewal", async () => {
  await reset();
  const kek = await playWrappedKek();
  kek.service.fault = awsFault("KMSInternalException", "", 500);
  const now = Date.now();
  vi.useFakeTimers({ toFake: ["Date"], now });
  onTestFinished(() => void vi.useRealTimers());
  const shard = env.LOG_SHARD.getByName(`${logOrigin}/0`);
  await runInDurableObject(shard, async (instance: TestedLogShard) => {
    let hangs = false;
    const fetch: typeof kek.service.fetch = (url, init) =>
      hangs ? new Promise(() => {}) : kek.service.fetch(url, init);
    const openHere: OpenPlatformKeys = (configuration, means) =>
      PlatformKeys.open(configuration, { ...means, fetch });
    const secrets = { KEK: kek.value, KEY_CREDENTIAL_AWSKMS: awsCredential };
    Object.assign(instance, {
      openKeyCustody: openHere,
      env: { ...env, ...logValues, ...secrets },
    });
    const append = () => instance.append(`${logOrigin}/0`, new Uint8Array(40));
    const refused = { refused: "failed", detail: expect.stringContaining("the KEK is not open") };
    expect(await append()).toEqual(refused);
    expect(await append()).toEqual(refused);
    expect(kek.service.asked).toEqual(["Decrypt"]);
    kek.service.fault = undefined;
    vi.setSystemTime(now + 2000);
    expect(await append()).toEqual({ index: 0 });
    // The lease has ended.
    const later = now + 25 * 3_600_000;
    kek.service.fault = awsFault("KMSInternalException", "", 500);
    vi.setSystemTime(later);
    expect(await append()).toEqual(refused);
    kek.service.fault = undefined;
    vi.setSystemTime(later + 60_000);
    expect(await append()).toEqual({ index: 1 });
    hangs = true;
    vi.setSystemTime(later + 460_000);
    expect(await append()).toEqual({ index: 2 });
  });
});
