import { beforeEach, describe, expect, test } from "vitest";
import {
  badAnswerSeconds,
  goodAnswerSeconds,
  maximumAnswers,
  TokenReview,
} from "../../src/authn/token-review.ts";
import { CaError } from "../../src/foundation/errors.ts";
import { ClusterApi, maximumUnderWay } from "../../src/kubernetes/cluster-api.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { goodReview } from "../testkit/kubernetes/api-server.ts";
import { refusalOf } from "../testkit/refusal.ts";
import { eventually } from "../testkit/time/eventually.ts";

const now = new Date("2026-11-21T12:00:00Z");
const inAnHour = addSeconds(now, 3600);
const rejected = { reason: "credential-rejected", check: "review" };
const yes = goodReview("a:b");
const no = { user: {}, error: "the pod is gone" };

let status: unknown;
let asked: string[];
let ask: (text: string, at?: Date, expiresAt?: Date) => ReturnType<TokenReview>;

beforeEach(() => {
  status = yes;
  asked = [];
  const apis = { verified: apiNamed("verified"), unverified: apiNamed("unverified") };
  const review = TokenReview.create(["istio-ca"], apis);
  ask = (text, at = now, expiresAt = inAnHour) => review({ text, expiresAt, isVerified: true }, at);
});

function apiNamed(name: string): ClusterApi {
  return {
    cluster: "c",
    send: async () => {
      asked.push(name);
      return answerOf(status);
    },
  };
}

const answerOf = (status: unknown) => ({
  apiVersion: "authentication.k8s.io/v1",
  kind: "TokenReview",
  status,
});

describe("an answer is remembered", () => {
  test("for a while, and no longer", async () => {
    await ask("token");
    status = no;
    await ask("token", addSeconds(now, goodAnswerSeconds - 1));
    expect(asked).toHaveLength(1);
    const later = addSeconds(now, goodAnswerSeconds);
    expect(await refusalOf(() => ask("token", later))).toEqual(rejected);
  });

  test("but for no clock that was set back", async () => {
    await ask("token", addSeconds(now, 1800));
    status = no;
    expect(await refusalOf(() => ask("token"))).toEqual(rejected);
    status = yes;
    await ask("token", addSeconds(now, -1800));
  });

  test("for the token that it was about", async () => {
    await ask("token");
    status = no;
    expect(await refusalOf(() => ask("another"))).toEqual(rejected);
  });

  test("when it is no, for a shorter while", async () => {
    status = no;
    await refusalOf(() => ask("token"));
    status = yes;
    expect(await refusalOf(() => ask("token"))).toEqual(rejected);
    expect(await ask("token", addSeconds(now, badAnswerSeconds))).toMatchObject({
      account: { namespace: "a", name: "b" },
    });
  });

  test("never beyond the token", async () => {
    const expiresAt = addSeconds(now, 3);
    await ask("token", now, expiresAt);
    await ask("token", addSeconds(now, 2), expiresAt);
    expect(asked).toHaveLength(1);
    await ask("token", addSeconds(now, 3), expiresAt);
    expect(asked).toHaveLength(2);
  });

  test("but not more of them than fit", async () => {
    for (let i = 0; i <= maximumAnswers; i++) await ask(`token ${i}`);
    await ask(`token ${maximumAnswers}`);
    expect(asked).toHaveLength(maximumAnswers + 1);
    await ask("token 0");
    expect(asked).toHaveLength(maximumAnswers + 2);
  });

  test("when it is yes, however many tokens are rejected since", async () => {
    await ask("token");
    status = no;
    for (let i = 0; i <= maximumAnswers; i++) await refusalOf(() => ask(`forged ${i}`));
    expect(await ask("token")).toMatchObject({ account: { name: "b" } });
  });

  test("not at all when it is none", async () => {
    status = "junk";
    expect(await refusalOf(() => ask("token"))).toMatchObject({ reason: "cluster-unreachable" });
    status = yes;
    expect(await ask("token")).toMatchObject({ account: { name: "b" } });
  });
});

describe("tokens that no key has verified", () => {
  const answers: ((json: unknown) => void)[] = [];
  const client = {
    send: () => new Promise<unknown>((resolve) => answers.push(resolve)),
    open: async () => new Response(),
  };
  const openApi = () => ClusterApi.create({ cluster: "c", client, failed: () => {} });

  test("take no place of those that one has", async () => {
    const apis = { verified: openApi(), unverified: openApi() };
    const review = TokenReview.create(["istio-ca"], apis);
    const about = (text: string, isVerified: boolean) =>
      review({ text, expiresAt: inAnHour, isVerified }, now);
    const refused: unknown[] = [];
    // Which of them comes first to the bound is up to the platform's threads.
    const forged = Array.from({ length: maximumUnderWay + 8 }, (_, i) =>
      about(`forged ${i}`, false).catch((error: unknown) => refused.push(error)),
    );
    const good = about("good", true);
    const busy = { refusal: { reason: "cluster-busy", cluster: "c" } };
    await eventually(() => expect(refused).toHaveLength(8));
    for (const each of refused) expect(each).toMatchObject(busy);
    await eventually(() => expect(answers).toHaveLength(maximumUnderWay + 1));
    for (const answer of answers) answer(answerOf(yes));
    expect(await good).toMatchObject({ account: { name: "b" } });
    await Promise.all(forged);
  });
});

const reviewedAt = new Date("2026-11-21T12:00:00Z");
const apiVersion = "authentication.k8s.io/v1";
const kind = "TokenReview";

const reviewedAs = (answer: unknown) =>
  ClusterApi.reviewToken(
    { cluster: "a", send: async () => answer },
    "token",
    ["istio-ca"],
    reviewedAt,
  );

test("takes what Go omits as false and empty", async () => {
  expect(await reviewedAs({ apiVersion, kind, status: {} })).toEqual({
    authenticated: false,
    error: "",
    audiences: [],
    user: { username: "", groups: [], extra: {} },
  });
});

const good = { apiVersion, kind, status: {} };

test.each<[string, unknown]>([
  ["nothing, by status 404", undefined],
  ["a text", "yes"],
  ["an object", {}],
  ["another version", { ...good, apiVersion: "authentication.k8s.io/v1beta1" }],
  ["another kind", { ...good, kind: "SubjectAccessReview" }],
  ["no status", { ...good, status: undefined }],
  ["a text that says yes", { ...good, status: { authenticated: "true" } }],
  ["a user name of any length", { ...good, status: { user: { username: "u".repeat(1025) } } }],
  ["many groups", { ...good, status: { user: { groups: Array.from({ length: 65 }, () => "g") } } }],
  ["an extra value that is no list", { ...good, status: { user: { extra: { e: "1" } } } }],
])("an answer that is %s is no decision", async (_, answer) => {
  expect(await refusalOf(() => reviewedAs(answer))).toEqual({
    reason: "cluster-unreachable",
    cluster: "a",
  });
});

describe("a look at the API server", () => {
  const looking = (send: ClusterApi["send"]) => {
    const api = { cluster: "c", send };
    return TokenReview.create(["istio-ca"], { verified: api, unverified: { ...api, send: never } });
  };
  const never = async () => {
    throw new Error("a look takes the way of verified tokens, which no stranger can fill");
  };
  const refused = (reason: "cluster-unreachable" | "cluster-busy") => async () => {
    throw new CaError({ reason, cluster: "c" }, `the API server of c: ${reason}`);
  };

  test("has no failure while it reviews tokens, or is busy with it", async () => {
    for (const send of [async () => answerOf(no), refused("cluster-busy")]) {
      const { probe, failure } = looking(send);
      await probe?.(now);
      expect(failure?.()).toBeUndefined();
    }
  });

  test.each<[string, ClusterApi["send"]]>([
    ["back", async () => answerOf(no)],
    ["busy", refused("cluster-busy")],
  ])(
    "has one while it is away, asks no more than once in ten seconds, and none once it is %s",
    async (_, answering) => {
      let send: ClusterApi["send"] = refused("cluster-unreachable");
      let asked = 0;
      const { probe, failure } = looking((...request) => {
        asked++;
        return send(...request);
      });
      for (const seconds of [0, 1, 9]) await probe?.(addSeconds(now, seconds));
      expect(asked).toBe(1);
      expect(failure?.()).toEqual({ at: now, detail: "the API server of c: cluster-unreachable" });
      send = answering;
      await probe?.(addSeconds(now, 10));
      expect(failure?.()).toBeUndefined();
    },
  );

  test("is taken at once by a clock that was set back", async () => {
    let send: ClusterApi["send"] = refused("cluster-unreachable");
    const { probe, failure } = looking((...request) => send(...request));
    await probe?.(now);
    send = async () => answerOf(no);
    await probe?.(addSeconds(now, -3600));
    expect(failure?.()).toBeUndefined();
  });

  test("knows nothing of what callers ask", async () => {
    const review = looking(refused("cluster-unreachable"));
    const question = { text: "forged", expiresAt: inAnHour, isVerified: true };
    await expect(review(question, now)).rejects.toThrow(CaError);
    expect(review.failure?.()).toBeUndefined();
  });
});
