import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import {
  coolDownSeconds,
  IssuerKeys,
  type KeyQuery,
  keysFreshSeconds,
  keysSurviveOutageSeconds,
  maximumWaiting,
} from "../../src/authn/issuer-keys.ts";
import { DocumentFetch, type FetchError } from "../../src/foundation/fetch.ts";
import { Semaphore } from "../../src/foundation/shared-work.ts";
import { sharePromises } from "../../src/node/limits/promise-sharing.ts";
import { NodeFetch } from "../../src/program/http/http-client.ts";
import { createTokenKey } from "../testkit/callers/tokens.ts";
import { type LoopbackServer, startLoopbackServer } from "../testkit/network/loopback-server.ts";
import { refusalOf } from "../testkit/refusal.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";

const fetchJson = DocumentFetch.create({
  fetchTrusting: NodeFetch.trusting,
  fetchTimeoutMilliseconds: hangMilliseconds,
});

const start = new Date("2026-11-21T12:00:00Z");
const later = (seconds: number): Date => new Date(start.getTime() + seconds * 1000);

const [first, second] = await Promise.all(
  ["first", "second"].map(async (keyId) => (await createTokenKey("ES256", keyId)).publicJwk),
);

const query = (keyId: string | undefined): KeyQuery => ({ algorithm: "ES256", keyId });
const idsOf = async (keys: ReturnType<IssuerKeys>) => (await keys).map(({ keyId }) => keyId);

/** A JWKS endpoint whose answer a test can change. */
interface Publication {
  readonly server: LoopbackServer;
  readonly keys: IssuerKeys;
  readonly failures: FetchError[];
  answer: (response: ServerResponse) => void;
}

const withKeys =
  (...keys: readonly unknown[]) =>
  (response: ServerResponse) =>
    void response.end(JSON.stringify({ keys }));
const withStatus = (status: number) => (response: ServerResponse) =>
  void response.writeHead(status).end();

async function publish(
  answer: Publication["answer"],
  waitingCapacity: Semaphore = new Semaphore(4000),
): Promise<Publication> {
  const failures: FetchError[] = [];
  const server = await startLoopbackServer((_, response) => publication.answer(response));
  const keys = IssuerKeys.published("https://a.test", `${server.origin}/jwks`, {
    fetchJson,
    keyFetchFailed: (_, error) => void failures.push(error),
    shareWork: sharePromises,
    waitingCapacity: waitingCapacity,
  });
  const publication: Publication = { server, keys, failures, answer };
  return publication;
}

/** An endpoint that answers only once it is released. */
async function publishHeld(answer: Publication["answer"], waitingCapacity?: Semaphore) {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const publication = await publish(
    (response) => void released.then(() => answer(response)),
    waitingCapacity,
  );
  return { ...publication, release };
}

describe("published keys", () => {
  test("are fetched once for a thousand requests", async () => {
    const { keys, server } = await publish(withKeys(first));
    for (let i = 0; i < 20; i++) await keys.probe?.(later(i));
    for (let i = 0; i < 1000; i++) await keys(query("first"), later(i / 2));
    expect(server.requests).toEqual(["/jwks"]);
  });

  test("are fetched once for a thousand requests at once on a cold cache", async () => {
    const { keys, server, release } = await publishHeld(withKeys(first));
    const asked = Array.from({ length: 1000 }, () => idsOf(keys(query("first"), start)));
    release();
    const found = await Promise.all(asked);
    expect(found.filter(([keyId]) => keyId === "first")).toHaveLength(1000);
    expect(server.requests).toHaveLength(1);
  });

  test("are fetched again when they are no longer fresh", async () => {
    const { keys, server } = await publish(withKeys(first));
    await keys(query("first"), start);
    await keys(query("first"), later(keysFreshSeconds - 1));
    expect(server.requests).toHaveLength(1);
    await keys(query("first"), later(keysFreshSeconds));
    expect(server.requests).toHaveLength(2);
  });

  test("stop working once a fetch shows that they were withdrawn", async () => {
    const publication = await publish(withKeys(first, second));
    await publication.keys(query("first"), start);
    publication.answer = withKeys(second);
    expect(await idsOf(publication.keys(query("first"), later(keysFreshSeconds)))).toEqual([]);
  });

  test("are fetched again by a clock that was set back, so that a withdrawn one stops working", async () => {
    const publication = await publish(withKeys(first, second));
    const { keys, server } = publication;
    const ahead = later(86_400);
    expect(await idsOf(keys(query("first"), ahead))).toEqual(["first"]);
    publication.answer = withKeys(second);
    // Requests that were under way may come with older times.
    expect(await idsOf(keys(query("first"), later(86_400 - 60)))).toEqual(["first"]);
    expect(await idsOf(keys(query("first"), start))).toEqual([]);
    expect(await idsOf(keys(query("second"), start))).toEqual(["second"]);
    expect(server.requests).toHaveLength(2);
    // The next fetch is due by the clock as it is now.
    expect(await idsOf(keys(query("second"), later(keysFreshSeconds)))).toEqual(["second"]);
    expect(server.requests).toHaveLength(3);
  });

  test("serve no longer by a clock that was set back while their issuer is away", async () => {
    const publication = await publish(withKeys(first));
    await publication.keys(query("first"), later(86_400));
    publication.answer = withStatus(503);
    const refusal = await refusalOf(() => publication.keys(query("first"), start));
    expect(refusal).toEqual({ reason: "key-provider-unreachable", issuer: "https://a.test" });
    expect(publication.keys.state?.(start).keys).toEqual([]);
  });

  test("are found after a rotation", async () => {
    const publication = await publish(withKeys(first));
    expect(await idsOf(publication.keys(query("first"), start))).toEqual(["first"]);
    publication.answer = withKeys(first, second);
    const now = later(coolDownSeconds);
    expect(await idsOf(publication.keys(query("second"), now))).toEqual(["second"]);
  });

  test("fit a token without a key id", async () => {
    const { keys } = await publish(withKeys(first, second));
    expect(await idsOf(keys(query(undefined), start))).toEqual(["first", "second"]);
  });
});

describe("requests that wait for keys", () => {
  const tooMany = { reason: "too-many-waiting" };

  test("are refused beyond the number for one issuer, and the others served", async () => {
    const { keys, server, release } = await publishHeld(withKeys(first));
    const served = Array.from({ length: 1 + maximumWaiting }, () => keys(query("first"), start));
    for (let i = 0; i < 100; i++) {
      expect(await refusalOf(() => keys(query("first"), start))).toEqual(tooMany);
    }
    release();
    expect((await Promise.all(served)).flat()).toHaveLength(1 + maximumWaiting);
    expect(server.requests).toHaveLength(1);
    expect(await idsOf(keys(query("first"), start))).toEqual(["first"]);
  });

  test("of one issuer leave half of the room to those of others, and give it back when they go", async () => {
    const room = new Semaphore(4);
    const [a, b] = await Promise.all([1, 2].map(() => publishHeld(withKeys(first), room)));
    if (!a || !b) throw new Error("two issuers");
    const ofA = Array.from({ length: 3 }, () => a.keys(query("first"), start));
    expect(await refusalOf(() => a.keys(query("first"), start))).toEqual(tooMany);
    const ofB = Array.from({ length: 2 }, () => b.keys(query("first"), start));
    expect(await refusalOf(() => b.keys(query("first"), start))).toEqual(tooMany);
    a.release();
    await Promise.all(ofA);
    ofB.push(b.keys(query("first"), start));
    b.release();
    expect((await Promise.all(ofB)).flat()).toHaveLength(3);
  });

  test("take nothing from those whose key is known", async () => {
    const room = new Semaphore(0);
    const publication = await publish(withKeys(first), room);
    await publication.keys(query("first"), start);
    publication.answer = () => {};
    const now = later(coolDownSeconds);
    Promise.resolve(publication.keys(query("x"), now)).catch(() => {});
    expect(await refusalOf(() => publication.keys(query("y"), now))).toEqual(tooMany);
    expect(await idsOf(publication.keys(query("first"), now))).toEqual(["first"]);
  });

  test("leave a fetch that is lost to the next request", async () => {
    const { promise: lost } = Promise.withResolvers<unknown>();
    const answers = [lost, Promise.resolve({ keys: [first] })];
    const next = () => answers.shift() ?? lost;
    const keys = IssuerKeys.published("https://a.test", "https://a.test/jwks", {
      fetchJson: { anywhere: next, public: next },
      keyFetchFailed: () => {},
      shareWork: (room) => sharePromises(room, 1),
      waitingCapacity: new Semaphore(1),
    });
    void keys(query("first"), start);
    const refusal = await refusalOf(() => keys(query("first"), start));
    expect(refusal.reason).toBe("key-provider-unreachable");
    expect(await idsOf(keys(query("first"), later(11)))).toEqual(["first"]);
  });
});

describe("an unknown key id", () => {
  test("causes at most one fetch in a cool-down, from a thousand tokens at once", async () => {
    const { keys, server } = await publish(withKeys(first));
    await keys(query("first"), start);
    for (const second of [coolDownSeconds, coolDownSeconds + 1, 2 * coolDownSeconds - 1]) {
      const storm = Array.from({ length: 1000 }, (_, i) => keys(query(`x${i}`), later(second)));
      expect((await Promise.all(storm)).flat()).toEqual([]);
    }
    expect(server.requests).toHaveLength(2);
    await keys(query("x"), later(2 * coolDownSeconds));
    expect(server.requests).toHaveLength(3);
  });
  test("does not stop known keys from serving during its fetch, however old they are", async () => {
    const publication = await publish(withKeys(first));
    await publication.keys(query("first"), start);
    publication.answer = () => {};
    let isGivenUp = false;
    const hanging = Promise.resolve(publication.keys(query("x"), later(keysFreshSeconds)));
    hanging.catch(() => {
      isGivenUp = true;
    });
    expect(await idsOf(publication.keys(query("first"), later(keysFreshSeconds)))).toEqual([
      "first",
    ]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(isGivenUp).toBe(false);
  });

  test("causes no more fetches under an algorithm that the issuer does not use", async () => {
    const { keys, server } = await publish(withKeys(first));
    await keys(query("first"), start);
    const storm = Array.from({ length: 100 }, () =>
      keys({ algorithm: "HS256", keyId: "first" }, later(coolDownSeconds)),
    );
    expect((await Promise.all(storm)).flat()).toEqual([]);
    expect(server.requests).toHaveLength(2);
  });

  test("is not refused for good while the issuer cannot be reached: it may be good", async () => {
    const publication = await publish(withKeys(first));
    await publication.keys(query("first"), start);
    publication.answer = withStatus(503);
    const refusal = await refusalOf(() =>
      publication.keys(query("second"), later(coolDownSeconds)),
    );
    expect(refusal.reason).toBe("key-provider-unreachable");
  });
});

describe("an issuer that cannot be reached", () => {
  const unreachable = { reason: "key-provider-unreachable", issuer: "https://a.test" };

  test("gets another fetch soon, but not from every request", async () => {
    const publication = await publish(withStatus(500));
    for (const second of [0, 1, 2, 3, 4]) {
      expect(await refusalOf(() => publication.keys(query("first"), later(second)))).toEqual(
        unreachable,
      );
    }
    expect(publication.server.requests).toHaveLength(1);
    publication.answer = withKeys(first);
    expect(await idsOf(publication.keys(query("first"), later(10)))).toEqual(["first"]);
    expect(publication.server.requests).toHaveLength(2);
  });
  test("leaves what is known of its unusable keys as it is", async () => {
    const publication = await publish(withKeys(first, { kty: "oct", kid: "old" }, { use: "enc" }));
    expect(publication.keys.state?.(start).unusable).toEqual([]);
    await publication.keys(query("first"), start);
    publication.answer = withStatus(503);
    await publication.keys(query("first"), later(keysFreshSeconds));
    expect(publication.keys.state?.(later(keysFreshSeconds))).toMatchObject({
      unusable: ["old: a key of the kind oct is not supported", "-: it is no JWK"],
      failure: { at: later(keysFreshSeconds) },
    });
  });

  test("is asked once in a cool-down while its last keys serve", async () => {
    const publication = await publish(withKeys(first));
    await publication.keys(query("first"), start);
    publication.answer = withStatus(503);
    const asked = async (seconds: number) => {
      await publication.keys(query("first"), later(keysFreshSeconds + seconds));
      return publication.server.requests.length;
    };
    expect([await asked(0), await asked(1), await asked(coolDownSeconds - 1)]).toEqual([2, 2, 2]);
    expect(await asked(coolDownSeconds)).toBe(3);
  });

  test("leaves its last keys to serve for the stated time, and no longer", async () => {
    const publication = await publish(withKeys(first));
    await publication.keys(query("first"), start);
    publication.answer = withStatus(503);
    for (const second of [keysFreshSeconds, 3600, keysSurviveOutageSeconds - 1]) {
      expect(await idsOf(publication.keys(query("first"), later(second)))).toEqual(["first"]);
    }
    const late = later(keysSurviveOutageSeconds);
    expect(await refusalOf(() => publication.keys(query("first"), late))).toEqual(unreachable);
    expect(publication.failures.length).toBeGreaterThanOrEqual(3);
  });

  test("that comes back lets its keys serve for the whole time again", async () => {
    const publication = await publish(withKeys(first));
    await publication.keys(query("first"), start);
    publication.answer = withStatus(503);
    await publication.keys(query("first"), later(10_000));
    publication.answer = withKeys(first);
    await publication.keys(query("first"), later(20_000));
    expect(publication.keys.state?.(later(20_000))).toMatchObject({ failure: undefined });
    // What it does not have, it does not have: nobody need try again.
    expect(await idsOf(publication.keys(query("unknown"), later(20_001)))).toEqual([]);
    publication.answer = withStatus(503);
    const late = later(20_000 + keysSurviveOutageSeconds - 1);
    expect(await idsOf(publication.keys(query("first"), late))).toEqual(["first"]);
  });

  test.each<[string, Publication["answer"]]>([
    ["no key that is of use", withKeys({ kty: "oct", k: "AAAA" })],
    ["no JWK Set", (response) => void response.end('{"jwks":[]}')],
  ])("is also one that answers %s: its last keys still serve", async (_, answer) => {
    const publication = await publish(withKeys(first));
    await publication.keys(query("first"), start);
    publication.answer = answer;
    const now = later(keysFreshSeconds);
    expect(await idsOf(publication.keys(query("first"), now))).toEqual(["first"]);
    expect(publication.failures).toHaveLength(1);
  });

  test("is not the reason given for a fault of this program", async () => {
    const fault = new TypeError("a mistake");
    const fail = () => Promise.reject(fault);
    const keys = IssuerKeys.published("https://a.test", "https://a.test/jwks", {
      fetchJson: { anywhere: fail, public: fail },
      keyFetchFailed: () => {},
      shareWork: sharePromises,
      waitingCapacity: new Semaphore(1),
    });
    await expect(keys(query("first"), start)).rejects.toBe(fault);
  });
});
