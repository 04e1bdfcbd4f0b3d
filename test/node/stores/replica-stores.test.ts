import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { ReplicaStores } from "../../../src/node/stores/stores.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
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
