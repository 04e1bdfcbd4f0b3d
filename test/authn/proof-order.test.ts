import { beforeEach, describe, expect, test } from "vitest";
import type { IssuerKeys } from "../../src/authn/issuer-keys.ts";
import { createTokenAuthenticator } from "../../src/authn/token-authenticator.ts";
import type { ReviewOrder, TokenIssuer } from "../../src/authn/token-issuer.ts";
import type { ReviewQuestion } from "../../src/authn/token-review.ts";
import { CaError } from "../../src/foundation/errors.ts";
import type { Refusal } from "../../src/foundation/refusal.ts";
import { tokenIssuer } from "../testkit/callers/token-issuers.ts";
import { createTokenKey, mintAccountToken } from "../testkit/callers/tokens.ts";
import { clusterLocal } from "../testkit/pki/certificates.ts";

const now = new Date("2026-11-21T12:00:00Z");
const name = "https://a.test";

const rejected = (check: string) => ({ reason: "credential-rejected", check }) as Refusal;
const unreachable: Refusal = { reason: "cluster-unreachable", cluster: "a" };
const busy: Refusal = { reason: "cluster-busy", cluster: "a" };
const tooMany: Refusal = { reason: "too-many-waiting" };
const noKeys: Refusal = { reason: "key-provider-unreachable", issuer: name };

/**
 * The key that signed a token: one of the issuer, a forged one under its id, an unknown one; or nobody could fetch
 * them, or too many wait for them.
 */
type Signer = "good" | "forged" | "unknown" | "unfetched" | "crowded";
/** The answer of the API server. */
type Word = "yes" | Refusal;

const [good, unknown] = await Promise.all([
  createTokenKey("ES256", "k1"),
  createTokenKey("ES256", "k2"),
]);
const forged = { ...unknown, publicJwk: { ...unknown.publicJwk, kid: "k1" } };
const keys = { good, forged, unknown, unfetched: good, crowded: good };
let questions: ReviewQuestion[];

beforeEach(() => {
  questions = [];
});

const keysThat =
  (refusal: Refusal): IssuerKeys =>
  () => {
    throw new CaError(refusal, "the issuer's keys cannot be had");
  };

function issuerWith(order: ReviewOrder, signer: Signer, word: Word): TokenIssuer {
  const account = { namespace: "foo", name: "bar" };
  const ask = async (question: ReviewQuestion) => {
    questions.push(question);
    if (word === "yes") return { account };
    throw new CaError(word, "as the test wants it");
  };
  const issuer = tokenIssuer(name, [keys.good], { namespaces: ["foo"], review: { order, ask } });
  if (signer === "crowded") return { ...issuer, keys: keysThat(tooMany) };
  return signer === "unfetched" ? { ...issuer, keys: keysThat(noKeys) } : issuer;
}

async function outcomeOf(
  order: ReviewOrder,
  signer: Signer,
  word: Word,
  account = "foo:bar",
): Promise<"issued" | Refusal> {
  const token = await mintAccountToken(keys[signer], name, account, now);
  const headers = new Headers({ authorization: `Bearer ${token}` });
  const authenticate = createTokenAuthenticator(clusterLocal, [issuerWith(order, signer, word)]);
  return authenticate({ headers }, now).then(
    () => "issued" as const,
    (error: unknown) => {
      if (error instanceof CaError) return error.refusal;
      throw error;
    },
  );
}

const no = rejected("review");

/** Order, key, answer; the outcome, and whether the API server was asked about a verified token, or at all. */
const rows: readonly [ReviewOrder, Signer, Word, "issued" | Refusal, boolean | undefined][] = [
  ["after-keys", "good", no, "issued", undefined],
  ["after-keys", "forged", "yes", rejected("signature"), undefined],
  ["after-keys", "unknown", "yes", "issued", false],
  ["after-keys", "unknown", no, no, false],
  ["after-keys", "unknown", unreachable, unreachable, false],
  ["after-keys", "unknown", busy, busy, false],
  ["after-keys", "unfetched", "yes", "issued", false],
  ["after-keys", "unfetched", no, no, false],
  ["after-keys", "unfetched", busy, busy, false],
  ["after-keys", "crowded", "yes", tooMany, undefined],

  ["before-keys", "good", "yes", "issued", true],
  ["before-keys", "good", no, no, true],
  ["before-keys", "good", rejected("audience"), rejected("audience"), true],
  ["before-keys", "good", unreachable, "issued", true],
  ["before-keys", "good", busy, busy, true],
  ["before-keys", "forged", "yes", rejected("signature"), undefined],
  ["before-keys", "forged", unreachable, rejected("signature"), undefined],
  ["before-keys", "unknown", "yes", rejected("key"), undefined],
  ["before-keys", "unfetched", "yes", "issued", false],
  ["before-keys", "unfetched", no, no, false],
  ["before-keys", "unfetched", unreachable, unreachable, false],
  ["before-keys", "unfetched", busy, busy, false],
  ["before-keys", "crowded", "yes", tooMany, undefined],

  ["instead-of-keys", "good", "yes", "issued", false],
  ["instead-of-keys", "good", no, no, false],
  ["instead-of-keys", "good", unreachable, unreachable, false],
  ["instead-of-keys", "good", busy, busy, false],
  ["instead-of-keys", "forged", no, no, false],
];

describe("who decides on a token:", () => {
  test.each(
    rows.map(([order, signer, word, outcome, isVerified]) => ({
      order,
      signer,
      word,
      outcome,
      isVerified,
      said: typeof word === "string" ? word : word.reason,
    })),
  )("$order, key $signer, API server $said", async (row) => {
    const { order, signer, word, outcome, isVerified } = row;
    expect(await outcomeOf(order, signer, word)).toEqual(outcome);
    const asked = questions.map((question) => question.isVerified);
    expect(asked).toEqual(isVerified === undefined ? [] : [isVerified]);
  });
});

describe("before-keys", () => {
  test("refuses a forged token alike in any namespace, however the API server is", async () => {
    for (const signer of ["forged", "unknown"] as const) {
      for (const word of ["yes", no, unreachable, busy] as const) {
        const inside = await outcomeOf("before-keys", signer, word);
        expect(await outcomeOf("before-keys", signer, word, "nowhere:bar")).toEqual(inside);
      }
    }
    expect(questions).toEqual([]);
  });

  test("refuses for its namespace only a token that is proved", async () => {
    const outcome = (signer: Signer, word: Word) =>
      outcomeOf("before-keys", signer, word, "nowhere:bar");
    expect(await outcome("good", unreachable)).toEqual(rejected("namespace"));
    expect(await outcome("good", busy)).toEqual(busy);
    expect(await outcome("unfetched", unreachable)).toEqual(unreachable);
  });
});
