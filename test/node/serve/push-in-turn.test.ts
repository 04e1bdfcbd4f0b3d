import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pushRoots, rotationOf } from "../../../src/node/serve/recurring-work.ts";
import { loadAuthorities } from "../../testkit/ca/loaded-authorities.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import {
  createKekRing,
  scheduleAfter,
  sealNewAuthority,
} from "../../testkit/ca/sealed-authorities.ts";
import { configurationOf } from "../../testkit/configuration.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../../testkit/kubernetes/watched-api.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const credential = "CLUSTER_CREDENTIAL_A";
const now = new Date("2026-11-21T12:00:00Z");
const keks = await createKekRing();
const seal = () => sealNewAuthority(keks, scheduleAfter(now, [-100, 0, 86_400, 100_000]));
const [own, ofAnother] = [await seal(), await seal()];

let api: WatchedApi;
beforeEach(async () => {
  api = await startWatchedApi();
  api.put(namespaceOf("shop"));
});
afterEach(() => api.close());

/** A replica that had read its store before its turn, and the end of that turn. */
async function replica() {
  const { authorities, store } = loadAuthorities(keks, own);
  await authorities.at(now);
  const kubernetes = { server: api.origin, credential, deliver_roots: true };
  const ISSUERS = [{ issuer: "https://a.test", cluster: "a", kubernetes }];
  const log = createEventRecorder();
  let turn = Promise.resolve();
  let rotates = true;
  const peerProcesses = { rotates: () => rotates, share: () => async () => [] };
  const push = pushRoots(
    configurationOf({ ISSUERS, [credential]: watchedToken }),
    { issuance: { authorities }, crls: undefined },
    { log, clock: () => now, fetchTimeoutMilliseconds: hangMilliseconds, peerProcesses },
    (work) => {
      turn = work();
      return turn;
    },
  );
  const deliver = async (): Promise<void> => {
    push.begin();
    await turn;
  };
  const rotateElsewhere = (): void => {
    rotates = false;
  };
  return { store, log, deliver, rotateElsewhere, shown: () => [...push.outcomes()] };
}

const writes = (): readonly string[] => api.asked.filter((each) => !each.startsWith("GET"));

test("a replica delivers what another has written before its turn, and never what it had read itself", async () => {
  const { store, deliver } = await replica();
  store.records.set(`authority/${ofAnother.id}`, ofAnother.value);
  await deliver();
  const [pem = ""] = Object.values(Object(api.configMapIn("shop")?.data)).map(String);
  expect(pem.match(/BEGIN CERTIFICATE/g)).toHaveLength(2);
  expect(writes()).toHaveLength(1);
});

test("a replica that cannot read the store in its turn delivers nothing, and says so", async () => {
  const { store, log, deliver } = await replica();
  store.outage = new Error("away");
  await expect(deliver()).rejects.toHaveProperty("refusal.reason", "store-unreachable");
  expect(writes()).toEqual([]);
  expect(log.operations).toContainEqual(
    expect.objectContaining({ event: "roots-not-delivered", level: "warning" }),
  );
});

test("a process shows nothing of its deliveries once another one rotates", async () => {
  const { deliver, rotateElsewhere, shown } = await replica();
  await deliver();
  expect(shown()).toMatchObject([{ cluster: "a", delivered: 1 }]);
  rotateElsewhere();
  expect(shown()).toEqual([]);
});

describe("a rotation", () => {
  /** A CA with a signer of another name, whose rotation is that of one of several processes. */
  async function rotating(rotates: boolean, lengths: object = {}) {
    const [ca, team] = await Promise.all([startCa(), startCa()]);
    const phaseLengths = { ...ca.mint.phaseLengths, ...lengths };
    const done: string[] = [];
    const parts = {
      composition: { mint: ca.mint, signerMints: new Map([["team", team.mint]]) },
      configuration: { importDirectory: "/cacerts", ca: { phaseLengths } },
      push: { begin: () => done.push("push") },
    };
    const context = {
      log: createEventRecorder(),
      clock: ca.now,
      random: () => 0.5,
      peerProcesses: { rotates: () => rotates },
      importPluggedIn: async (_: unknown, directory: string) => done.push(directory),
    };
    const run = rotationOf(() => parts as never, context as never, {
      inTurn: async (work) => {
        done.push("turn");
        await work();
      },
    });
    return { ca, team, done, run };
  }

  test("imports, rotates every signer and begins the push, in a turn", async () => {
    const { ca, team, done, run } = await rotating(true);
    expect(await run()).toBe(57);
    expect(done).toEqual(["turn", "/cacerts", "push"]);
    for (const { store } of [ca, team]) expect(store.records.size).toBeGreaterThan(0);
  });

  test("that fails for one signer rotates the others, begins the push and comes again", async () => {
    const { ca, team, done, run } = await rotating(true);
    ca.store.outage = new Error("away");
    expect(await run()).toBe(57);
    expect(done).toContain("push");
    expect(team.store.records.size).toBeGreaterThan(0);
  });

  test("is that of one process alone, and comes eight times in the shortest phase", async () => {
    const { done, run } = await rotating(false, { signingSeconds: 40 });
    expect(await run()).toBe(4.75);
    expect(done).toEqual([]);
  });
});
