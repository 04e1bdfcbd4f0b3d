import { expect, test } from "vitest";
import type { IssuerKeys, KeyState } from "../../src/authn/issuer-keys.ts";
import { keyFaultFinder } from "../../src/authn/key-faults.ts";
import type { ClusterIssuer, ReviewOrder } from "../../src/authn/token-issuer.ts";

const now = new Date("2026-11-21T12:00:00Z");
const key = { keyId: "a", algorithms: [] };

/** What an issuer does when it is looked at. */
type Answer = "answers" | "fails" | "hangs";

function issuerOf(answer: Answer, cluster: string, looked: string[] = []): ClusterIssuer {
  let state: KeyState = { source: "issuer", keys: [] };
  const probe = async (at: Date): Promise<void> => {
    looked.push(cluster);
    if (answer === "hangs") return;
    state =
      answer === "answers"
        ? { source: "issuer", keys: [key], fetchedAt: at }
        : { source: "issuer", keys: [], failure: { at, detail: "did not answer (ECONNREFUSED)" } };
  };
  const keys: IssuerKeys = Object.assign(() => [], { state: () => state, probe });
  return { cluster, keys } as unknown as ClusterIssuer;
}

const faultOf = (...issuers: readonly ClusterIssuer[]) => keyFaultFinder(issuers)(now);

test("a CA whose only issuer cannot be asked says so before any caller has come", async () => {
  expect(await faultOf(issuerOf("fails", "a"))).toBe(
    "no issuer's keys can be had: that of cluster a did not answer (ECONNREFUSED)",
  );
});

test("of several that fail one is named, and the others are counted", async () => {
  const fault = await faultOf(issuerOf("fails", "a"), issuerOf("fails", "b"));
  expect(fault).toMatch(/^no issuer's keys can be had: that of cluster a .*, and 1 more fail$/);
});

test.each<[string, Answer[]]>([
  ["one of two issuers answers", ["fails", "answers"]],
  ["nobody knows yet whether one answers", ["fails", "hangs"]],
  ["there is no issuer", []],
])("a CA has no fault while %s", async (_, answers) => {
  expect(await faultOf(...answers.map((answer, i) => issuerOf(answer, `${i}`)))).toBeUndefined();
});

/** An issuer without keys, whose API server reviews tokens. */
function reviewedBy(
  answer: "answers" | "fails",
  order: ReviewOrder,
  looked: string[] = [],
): ClusterIssuer {
  const detail = "the API server of a cannot be reached";
  let failure: { at: Date; detail: string } | undefined;
  const probe = async (at: Date): Promise<void> => {
    looked.push("API server");
    failure = answer === "fails" ? { at, detail } : undefined;
  };
  const ask = Object.assign(async () => Promise.reject(), { probe, failure: () => failure });
  return { ...issuerOf("fails", "a", looked), review: { order, ask } };
}

test.each(["after-keys", "before-keys", "instead-of-keys"] as const)(
  "an API server that reviews tokens (%s) needs no keys, and is a fault while it is away",
  async (order) => {
    expect(await faultOf(reviewedBy("answers", order))).toBeUndefined();
    const away = "no token can be verified: the API server of a cannot be reached";
    expect(await faultOf(reviewedBy("fails", order))).toBe(away);
    expect(await faultOf(reviewedBy("fails", order), issuerOf("answers", "b"))).toBeUndefined();
  },
);

test("an API server that alone decides on tokens has nobody look for keys", async () => {
  const looked: string[] = [];
  await faultOf(reviewedBy("fails", "instead-of-keys", looked));
  expect(looked).toEqual(["API server"]);
});

test("many issuers are asked a few at a time, each in its turn", async () => {
  const looked: string[] = [];
  const issuers = Array.from({ length: 9 }, (_, i) => issuerOf("fails", `${i}`, looked));
  const fault = keyFaultFinder(issuers);
  expect([await fault(now), await fault(now)]).toEqual([undefined, undefined]);
  expect(looked).toHaveLength(8);
  expect(await fault(now)).toMatch(/cluster 0 .*, and 8 more fail$/);
  expect(new Set(looked).size).toBe(9);
});

test("keys that are here are not looked for", async () => {
  const looked: string[] = [];
  const fault = keyFaultFinder([issuerOf("answers", "a", looked)]);
  await fault(now);
  await fault(now);
  expect(looked).toEqual(["a"]);
});
