import { describe, expect, test } from "vitest";
import {
  claimPathText,
  createSubjectMapping,
  parseClaimPath,
  recordedClaim,
} from "../../src/authn/subject-claims.ts";
import type { SubjectEntry } from "../../src/authn/token-subject.ts";
import { claimsOf } from "../testkit/callers/foreign-tokens.ts";
import type { Claims } from "../testkit/callers/tokens.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-11-22T12:00:00Z");
const seconds = now.getTime() / 1000;
const github = claimsOf("github", now);
const audiences = ["https://ca.test"];
const issuer = "https://issuer.test";

const entry = (changes: Partial<SubjectEntry> = {}): SubjectEntry => ({
  name: "deploy",
  conditions: [{ path: ["repository_id"], accepted: ["74"] }],
  namespace: "ci",
  account: "deploy",
  once: false,
  ...changes,
});

const when = (path: string, ...accepted: readonly string[]): Partial<SubjectEntry> => ({
  conditions: [{ path: parseClaimPath(path) ?? [], accepted }],
});

const mapped = (
  claims: Claims,
  entries: readonly SubjectEntry[],
  recordedClaims: readonly (readonly string[])[] = [],
) => createSubjectMapping({ issuer, entries, recordedClaims }).map(claims, audiences, now);

const accountOf = (claims: Claims, ...entries: readonly SubjectEntry[]): string => {
  const { account } = mapped(claims, entries);
  return `${account.namespace}/${account.name}`;
};

const refusal = (claims: Claims, ...entries: readonly SubjectEntry[]) =>
  refusalOf(async () => mapped(claims, entries));

const rejected = (check: string) => ({ reason: "credential-rejected", check });

/** Tries one condition on one claim. */
const fits = async (value: unknown, ...accepted: readonly string[]): Promise<boolean> => {
  try {
    mapped({ ...github, tried: value }, [entry(when("tried", ...accepted))]);
    return true;
  } catch {
    return false;
  }
};

test("no claim is recorded that every object has", () => {
  expect(recordedClaim({ ref: "a" }, "constructor")).toEqual([]);
});

describe("the path of a claim", () => {
  test.each([
    ["environment", ["environment"]],
    ["google.compute_engine.zone", ["google", "compute_engine", "zone"]],
    ["'https://sts.amazonaws.com/'.aws_account", ["https://sts.amazonaws.com/", "aws_account"]],
    ["a b", ["a b"]],
  ])("%s", (text, path) => {
    expect(parseClaimPath(text)).toEqual(path);
    expect(claimPathText(path)).toBe(text);
  });

  test("may have quotation marks of either kind", () => {
    const path = ["https://sts.amazonaws.com/", "aws_account"];
    expect(parseClaimPath('"https://sts.amazonaws.com/".aws_account')).toEqual(path);
  });

  test.each([
    ...["", ".", "a.", ".a", "a..b", '"a', '"a"b', "'a\"", "a'b", "a{b}", "a.b.c.d.e.f.g.h.i"],
    ...["a\\b", "__proto__", "a\ud800"],
  ])("is not %j", (text) => {
    expect(parseClaimPath(text)).toBeUndefined();
  });
});

describe("a condition", () => {
  test.each<[string, unknown, readonly string[]]>([
    ["an equal text", "prod", ["prod"]],
    ["one of several", "prod", ["test", "prod"]],
    ["a glob of one part", "refs/heads/release-1.2", ["refs/heads/release-*"]],
    [
      "a glob in two parts",
      "org/repo/.github/workflows/a.yml@refs/heads/main",
      ["org/*/.github/workflows/a.yml@refs/heads/*"],
    ],
    ["a whole number", 739419398126, ["739419398126"]],
    ["a number that is a text", "1", ["1"]],
    ["a boolean", true, ["true"]],
    ["a boolean that is a text", "true", ["true"]],
    ["one element of a list", ["other", "my-group"], ["my-group"]],
    ["the greatest whole number", Number.MAX_SAFE_INTEGER, ["9007199254740991"]],
  ])("fits %s", async (_, value, accepted) => {
    expect(await fits(value, ...accepted)).toBe(true);
  });

  test.each<[string, unknown, readonly string[]]>([
    ["no claim", undefined, ["undefined", "*"]],
    ["null", null, ["null", "*"]],
    ["an object", { prod: "prod" }, ["prod", "*"]],
    ["an empty list", [], ["", "*"]],
    ["an empty text by a star", "", ["*"]],
    ["a text by a star that begins in a name", "refs/heads/", ["refs/heads/*"]],
    ["another case", "Prod", ["prod"]],
    ["another Unicode form", "caf\u0065\u0301", ["caf\u00e9"]],
    ["a slash by a star", "refs/heads/a/b", ["refs/heads/*"]],
    ["a colon by a star", "repo:o/r:environment:prod", ["repo:o/r:*"]],
    ["the mark of an id by a star", "repo:octo-org@7/r@1:ref:x", ["repo:octo-*/r@1:ref:x"]],
    ["another owner by a star", "octo-org-evil/repo", ["octo-org/*"]],
    ["a line behind the text", "prod\n", ["prod*", "prod"]],
    ["a letter beyond ASCII by a star", "pröd", ["pr*d"]],
    ["what a regular expression would fit", "aXb", ["a.b"]],
    ["a number with a fraction", 1.5, ["1.5", "*"]],
    ["a number beyond 2^53", 2 ** 53, ["9007199254740992", "9007199254740993", "*"]],
    ["a long list", Array.from({ length: 65 }, () => "prod"), ["prod"]],
    ["a list in a list", [["prod"]], ["prod"]],
    ["a text of more than 1024 letters", "a".repeat(1025), ["*"]],
  ])("does not fit %s", async (_, value, accepted) => {
    expect(await fits(value, ...accepted)).toBe(false);
  });

  test("reads no property that JSON has not written", async () => {
    for (const path of ["constructor.name", "toString", "__proto__", "sub.length", "aud.0"]) {
      expect(await refusal(github, entry(when(path, "*", "Object", "1")))).toEqual(
        rejected("subject"),
      );
    }
    const inherited = Object.assign(Object.create({ tried: "prod" }), github);
    expect(await refusal(inherited, entry(when("tried", "prod")))).toEqual(rejected("subject"));
  });

  test("finds a claim in an object with dots in its name", () => {
    const path = '"https://sts.amazonaws.com/".aws_account';
    expect(accountOf(claimsOf("aws", now), entry(when(path, "111122223333")))).toBe("ci/deploy");
  });

  test("has to fit with all others of its entry", async () => {
    const both = entry({
      conditions: [
        { path: ["repository_id"], accepted: ["74"] },
        { path: ["environment"], accepted: ["test"] },
      ],
    });
    expect(await refusal(github, both)).toEqual(rejected("subject"));
  });
});

test("the first entry that fits decides", () => {
  const other = entry({ ...when("environment", "test"), name: "test", account: "test" });
  const later = entry({ name: "later", account: "later" });
  expect(accountOf(github, other, entry(), later)).toBe("ci/deploy");
});

test("a refusal says which entry is the nearest, and what it misses, without a value of the token", () => {
  const far = entry({ ...when("organization", "x"), name: "far" });
  const near = entry({
    name: "near",
    conditions: [
      { path: ["repository_id"], accepted: ["74"] },
      { path: ["environment"], accepted: ["secret-place"] },
      { path: ["ref"], accepted: ["refs/heads/main"] },
    ],
  });
  expect(() => mapped(github, [far, near])).toThrow(
    "no entry of subjects fits: the nearest, far, misses organization",
  );
  for (const entries of [[near], [entry({ ...near, ...when("a", "x"), name: "far" }), near]]) {
    const [farthest = near, ...others] = entries.map((each) =>
      each.name === "far" ? { ...each, namespace: "{b}", account: "{c}" } : each,
    );
    expect(() => mapped(github, [farthest, ...others])).toThrow(
      "no entry of subjects fits: the nearest, near, misses environment",
    );
  }
});

describe("a name with claims in it", () => {
  test("has each claim in a label of its own", () => {
    const account = "repo-{repository_id}.{environment}";
    expect(accountOf(github, entry({ account }))).toBe("ci/repo-74.prod");
    expect(accountOf(github, entry({ namespace: "owner-{repository_owner_id}" }))).toBe(
      "owner-7/deploy",
    );
  });

  test("has a claim of an object, and a number", () => {
    const google = claimsOf("google", now);
    const numbered = entry({
      ...when("email_verified", "true"),
      account: "p{google.compute_engine.project_number}",
    });
    expect(accountOf(google, numbered)).toBe("ci/p739419398126");
  });

  test.each<[string, unknown]>([
    ["upper case", "Octo"],
    ["a slash", "a/b"],
    ["a dot", "a.b"],
    ["nothing", ""],
    ["a hyphen at its end", "a-"],
    ["64 letters", "a".repeat(64)],
    ["a line behind it", "a\n"],
    ["a list of one", ["a"]],
    ["a full-width letter", "ａ"],
  ])("is refused for a claim with %s", async (_, value) => {
    const claims = { ...github, named: value };
    expect(await refusal(claims, entry({ account: "x-{named}" }))).toEqual(rejected("subject"));
    expect(await refusal(claims, entry({ namespace: "{named}" }))).toEqual(rejected("subject"));
  });

  test("is refused where it becomes longer than a label", async () => {
    const claims = { ...github, named: "a".repeat(63) };
    expect(await refusal(claims, entry({ namespace: "x-{named}" }))).toEqual(rejected("subject"));
  });

  test("does not fit a token without the claim, and the next entry may", () => {
    const missing = entry({ account: "x-{missing}" });
    expect(accountOf(github, missing, entry({ name: "next", account: "next" }))).toBe("ci/next");
  });
});

describe("the entry that a certificate names", () => {
  const givenBy = (changes: Partial<SubjectEntry>) => mapped(github, [entry(changes)]).entryDigest;
  const { hasEntry } = createSubjectMapping({
    issuer,
    entries: [entry({ ...when("environment", "test"), name: "other" }), entry()],
    recordedClaims: [],
  });

  test("is one of the table, whatever its name, its place and the ages of tokens", () => {
    expect(hasEntry(givenBy({}))).toBe(true);
    expect(hasEntry(givenBy({ name: "renamed", maximumAgeSeconds: 600 }))).toBe(true);
  });

  test.each<[string, Partial<SubjectEntry>]>([
    ["asks for another claim", when("environment", "prod")],
    ["accepts more", when("repository_id", "74", "75")],
    ["gives another account", { account: "other" }],
    ["gives another namespace", { namespace: "other" }],
  ])("is none that %s", (_, changes) => {
    expect(hasEntry(givenBy(changes))).toBe(false);
  });

  test("is none of another issuer", () => {
    const table = { issuer: "https://other.test", entries: [entry()], recordedClaims: [] };
    expect(hasEntry(createSubjectMapping(table).map(github, audiences, now).entryDigest)).toBe(
      false,
    );
  });
});

describe("of many entries", () => {
  const workflow = (repository: string, file: string) =>
    `octo-org/${repository}/.github/workflows/${file}@refs/heads/main`;
  const many = Array.from({ length: 200 }, (_, i) =>
    entry({
      ...when("job_workflow_ref", workflow("*", `deploy-${i}.yml`), workflow(`r-${i}`, "*")),
      name: `n${i}`,
      account: `a${i}`,
    }),
  );

  test.each<[unknown, string]>([
    [workflow("any", "deploy-7.yml"), "a7"],
    [workflow("r-8", "any.yml"), "a8"],
    [workflow("r-199", "deploy-3.yml"), "a3"],
    [["x", workflow("r-9", "any.yml"), workflow("any", "deploy-5.yml")], "a5"],
  ])("the first that fits %j decides, whatever finds it", (job_workflow_ref, account) => {
    expect(accountOf({ ...github, job_workflow_ref }, ...many)).toBe(`ci/${account}`);
  });

  test.each([
    workflow("r-200", "deploy.yml"),
    workflow("r-1/x", "deploy-1.yml"),
    `x${workflow("r-1", "a")}`,
  ])("none fits %s", async (job_workflow_ref) => {
    expect(await refusal({ ...github, job_workflow_ref }, ...many)).toEqual(rejected("subject"));
  });
});

describe("the audience of a token", () => {
  test.each([[["https://ca.test"]], ["https://ca.test"]])("may be %j", (aud) => {
    expect(accountOf({ ...github, aud }, entry())).toBe("ci/deploy");
  });

  test.each([
    [["https://ca.test", "https://other.test"]],
    [["https://ca.test", "https://ca.test"]],
    ["https://github.com/octo-org"],
    [[]],
    ["https://ca.test/"],
  ])("is refused as %j", async (aud) => {
    expect(await refusal({ ...github, aud }, entry())).toEqual(rejected("audience"));
  });
});

describe("the age of a token", () => {
  const young = entry({ maximumAgeSeconds: 600 });

  test("may be the greatest that its entry allows", () => {
    expect(accountOf({ ...github, iat: seconds - 600 }, young)).toBe("ci/deploy");
  });

  test("must not be greater, whatever its end", async () => {
    const claims = { ...github, iat: seconds - 601, exp: seconds + 3600 };
    expect(await refusal(claims, young, entry({ name: "next" }))).toEqual(rejected("time"));
    expect(accountOf(claims, entry())).toBe("ci/deploy");
  });

  test("must be known", async () => {
    expect(await refusal({ ...github, iat: undefined }, young)).toEqual(rejected("form"));
  });

  test("ends with the token", async () => {
    expect(await refusal({ ...github, exp: seconds }, entry())).toEqual(rejected("time"));
  });
});

test("a token that is used once is so until its end", () => {
  expect(mapped(github, [entry()]).usedOnceUntil).toBeUndefined();
  const { usedOnceUntil } = mapped(github, [entry({ once: true })]);
  expect(usedOnceUntil).toEqual(new Date((seconds + 300) * 1000));
});

describe("what is recorded of a token", () => {
  test("is its subject, the entry, and the chosen claims that it has", () => {
    const chosen = [["repository_id"], ["missing"], ["run_id"], ["groups"]];
    const claims = { ...github, groups: ["a", "b"] };
    expect(mapped(claims, [entry()], chosen).tokenSubject).toEqual({
      sub: "repo:octo-org@7/octo-repo@74:environment:prod",
      entry: "deploy",
      claims: { repository_id: "74", run_id: "577902066", groups: ["a", "b"] },
    });
  });

  test("may have 256 octets, and a token with a longer claim is refused", async () => {
    const chosen = [["long"]];
    expect(
      mapped({ ...github, long: "é".repeat(128) }, [entry()], chosen).tokenSubject.claims,
    ).toEqual({
      long: "é".repeat(128),
    });
    const claims = { ...github, long: `${"é".repeat(128)}x` };
    expect(await refusalOf(async () => mapped(claims, [entry()], chosen))).toEqual(
      rejected("form"),
    );
  });

  test.each<[string, unknown]>([
    ["is longer than any text of a token", "a".repeat(1025)],
    ["is an object", { a: "b" }],
    ["is a fraction", 1.5],
    ["is beyond 2^53", 2 ** 53],
    ["is a list with an object", ["a", {}]],
    ["is a long list", Array.from({ length: 65 }, () => "abcd")],
  ])("is no claim that %s: its token is refused", async (_, named) => {
    const asked = refusalOf(async () => mapped({ ...github, named }, [entry()], [["named"]]));
    expect(await asked).toEqual(rejected("form"));
  });

  test.each([undefined, null, []])("is nothing of %j", (named) => {
    expect(mapped({ ...github, named }, [entry()], [["named"]]).tokenSubject.claims).toEqual({});
  });

  test.each([undefined, 7, ["a"]])("takes a sub that is a text, and not %j", async (sub) => {
    expect(await refusal({ ...github, sub }, entry())).toEqual(rejected("form"));
  });
});

test("each of two entries demands what it says of a token's use and age, and nothing of the other", () => {
  const strict = entry({ once: true, maximumAgeSeconds: 60 });
  const lax = entry({ ...when("repository_id", "75"), name: "lax", account: "lax" });
  const of = (repository_id: string, age: number) =>
    mapped({ ...github, repository_id, iat: seconds - age }, [strict, lax]);
  expect(of("74", 30).usedOnceUntil).toBeDefined();
  expect(() => of("74", 90)).toThrow("older than deploy allows");
  expect(of("75", 90)).toMatchObject({ account: { name: "lax" }, usedOnceUntil: undefined });
  const reversed = mapped({ ...github, repository_id: "74", iat: seconds - 30 }, [lax, strict]);
  expect(reversed.usedOnceUntil).toBeDefined();
});

test("any of three accepted texts fits, literal or with a star", async () => {
  for (const value of ["a", "b", "c-1"]) expect(await fits(value, "a", "b", "c-*")).toBe(true);
  expect(await fits("d", "a", "b", "c-*")).toBe(false);
});
