import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { CaStores } from "../../../src/config/ca-stores.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import { ReplicaStores } from "../../../src/node/stores/stores.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { createMemoryStore } from "../../testkit/ca/memory-store.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { refusalOf } from "../../testkit/refusal.ts";
import {
  type SecretsApi,
  secretsToken,
  startSecretsApi,
} from "../../testkit/stores/secrets-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

async function openOn(api: SecretsApi, propagationSeconds = 120): Promise<ReplicaStores> {
  const ending = new AbortController();
  onTestFinished(api.close);
  onTestFinished(() => ending.abort());
  const tokenFile = join(await temporaryFolder(), "token");
  await writeFile(tokenFile, secretsToken);
  const apiServer = { server: api.origin, serverRootsFile: undefined, tokenFile };
  const store = { kind: "kubernetes", namespace: "rampart-store", apiServer } as const;
  return ReplicaStores.open(
    { store, ca: { signers: [] } },
    {
      log: createEventRecorder(),
      clock: () => new Date(),
      propagationSeconds,
      signal: ending.signal,
    },
  );
}

describe("the stores of a replica", () => {
  test.each([10, 60, 120, 3600])(
    "are behind others by a part of a propagation interval of %i seconds",
    async (propagationSeconds) => {
      const { lagSeconds } = await openOn(await startSecretsApi(), propagationSeconds);
      expect(lagSeconds).toBeGreaterThan(0);
      expect(lagSeconds).toBeLessThanOrEqual(Math.min(15, propagationSeconds / 5));
    },
  );

  test("deliver while another rotates, and do either once at a time", async () => {
    const api = await startSecretsApi();
    const [stores, other] = [await openOn(api), await openOn(api)];
    const { promise: rotated, resolve: endRotation } = Promise.withResolvers<void>();
    const done: string[] = [];
    const begun = Promise.withResolvers<void>();
    const rotation = stores.inTurn(async () => {
      begun.resolve();
      await rotated;
      done.push("rotation");
    });
    await begun.promise;
    await stores.inTurn(async () => void done.push("second rotation"));
    await other.inTurn(async () => void done.push("another's rotation"));
    await other.pushInTurn(async () => void done.push("another's push"));
    await stores.pushInTurn(async () => void done.push("push"));
    endRotation();
    await rotation;
    await other.inTurn(async () => void done.push("next rotation"));
    expect(done).toEqual(["another's push", "push", "rotation", "next rotation"]);
  });

  test("leave the fault of work to whoever asked for it, and take their next turns", async () => {
    for (const kind of ["inTurn", "pushInTurn"] as const) {
      const stores = await openOn(await startSecretsApi());
      await expect(
        stores[kind](async () => {
          throw new Error("of the work");
        }),
      ).rejects.toThrow("of the work");
      let isDone = false;
      await stores[kind](async () => {
        isDone = true;
      });
      expect(isDone).toBe(true);
    }
  });

  test("list the store itself in the turn of a delivery, and wait for no watch", async () => {
    const api = await startSecretsApi();
    const stores = await openOn(api);
    const lists = async (): Promise<number> => {
      const before = api.asked.length;
      await stores.store.load();
      return api.asked.slice(before).filter((each) => each.endsWith("/secrets")).length;
    };
    await eventually(async () => expect(await lists()).toBe(0));
    let inTurn = 0;
    await stores.pushInTurn(async () => {
      inTurn = await lists();
    });
    expect(inTurn).toBe(1);
    expect(await lists()).toBe(0);
  });
});

/** Loads the authorities of a store that is behind by so much, then has the store fail. */
async function outageWith(storeLagSeconds: number) {
  const values = { KEK: randomKek(), PROPAGATION_INTERVAL: "300s" };
  const store = createMemoryStore();
  const ca = await startCa(values, { store });
  await ca.found();
  ca.pass(600);
  const configuration = Configuration.parse({ ISSUERS: [{ issuer: "https://a.test" }], ...values });
  const log = createEventRecorder();
  const { own } = await CaStores.open(configuration, {
    store,
    log,
    storeLagSeconds,
    clock: () => ca.now(),
    cryptoProvider: webCryptoProvider,
  });
  const at = async () => own.authorities.at(ca.now());
  expect((await at()).issuer).toBeDefined();
  store.outage = new Error("away");
  return { ca, at };
}

describe("without its store a replica signs for one propagation interval after the records were true:", () => {
  test.each([
    ["records that may be fifteen seconds old count for fifteen seconds less", 15, 285],
    ["records that are never old count for all of it", 0, 300],
  ])("%s", async (_, lagSeconds, seconds) => {
    const { ca, at } = await outageWith(lagSeconds);
    ca.pass(seconds);
    expect((await at()).issuer).toBeDefined();
    ca.pass(1);
    expect(await refusalOf(at)).toMatchObject({ reason: "store-unreachable" });
  });
});
