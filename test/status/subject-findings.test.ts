import { expect, test } from "vitest";
import { subjectFindings } from "../../src/status/subject-findings.ts";
import { issuersOf } from "../testkit/configuration.ts";

const github = "https://token.actions.githubusercontent.com";
const safe = { repository_owner_id: "7", repository_id: "74", environment: "prod" };

const mistakesIn = (claims: object, issuer = github): readonly string[] => {
  const subjects = [{ name: "it", claims, namespace: "ci", account: "it" }];
  const table = { issuer, audiences: ["https://ca.test"], subjects };
  return subjectFindings(issuersOf(table)).map(({ what }) =>
    what.replace(`The entry it of ${issuer} `, ""),
  );
};

const gitlab = "https://gitlab.test";
const ofGitLab = {
  namespace_id: "72",
  project_id: "20",
  job_project_id: "20",
  ref_protected: true,
};

test.each<[string, object, string?]>([
  ["GitHub", safe],
  [
    "GitHub, by the numbers in sub",
    {
      sub: "repo:octo-org@7/r@74:environment:prod",
      repository_id: "74",
      environment: "prod",
      event_name: ["push"],
    },
  ],
  ["GitLab", ofGitLab, gitlab],
  ["GitLab, by a branch", { ...ofGitLab, ref: "main", ref_type: "branch" }, gitlab],
  [
    "AWS",
    { "https://sts.amazonaws.com/": { aws_account: "1" }, sub: "arn:aws:iam::1:role/build" },
    "https://a.tokens.sts.global.api.aws",
  ],
  ["Google", { sub: "112010400000000710080" }, "https://accounts.google.com"],
  ["Azure", { tid: "a", oid: "b" }, "https://sts.windows.net/a/"],
  ["another trust domain", { sub: "spiffe://other.test/ns/a/sa/*" }, "https://oidc.other.test"],
])("an entry as the page recommends it for %s has no finding", (_, claims, issuer) => {
  const found = mistakesIn(claims, issuer).filter(
    (what) => !what.startsWith("knows one of GitHub's"),
  );
  expect(found).toEqual([]);
});

test.each<[object, string, string?]>([
  [{ repository: "octo-org/r", environment: "prod" }, "pins no id"],
  [{ repository_id: ["74", "7*"], environment: "prod" }, "pins no id"],
  [{ sub: ["112010400000000710080", "build"] }, "pins no id", "https://accounts.google.com"],
  [{ sub: "arn:aws:iam::1:role/build" }, "pins no id", "https://a.tokens.sts.global.api.aws"],
  [{ sub: "repo:octo-org@*/r@74:ref:refs/heads/main" }, "has a star in the place of an id"],
  [{ ...safe, repository: "*/r" }, "has a star that fits every owner"],
  [{ ...safe, sub: "repo:octo-*/r:environment:prod" }, "has a star that fits every owner"],
  [{ ...safe, repository_owner: "*" }, "has a star that fits every owner"],
  [{ ...safe, sub: "repo:octo-org/r:environment:prod" }, "knows one of GitHub's two forms"],
  [{ ...safe, event_name: ["push", "pull_request_target"] }, "fits jobs that run for strangers"],
  [{ ...safe, event_name: "workflow_run" }, "fits jobs that run for strangers"],
  [{ repository_id: "74" }, "asks for neither an environment nor a ref"],
  [{ sub: ["repo:o@7/r@74:ref:a", "repo:o@7/r@74:pull_request"] }, "asks for neither"],
  [{ namespace_id: "72", project_id: "20", job_project_id: "20" }, "asks for neither", gitlab],
  [
    { namespace_id: "72", project_id: "20", ref_protected: true },
    "fits the pipelines of forks",
    gitlab,
  ],
  [{ ...ofGitLab, ref: "main" }, "fits a tag that is named like the branch", gitlab],
  [
    { "https://sts.amazonaws.com/": { aws_account: "1", request_tags: { team: "a" } } },
    "rests on a claim that the caller chooses",
    "https://a.tokens.sts.global.api.aws",
  ],
  [{ ...safe, head_ref: "a" }, "rests on a claim that the caller chooses"],
])("%j has a finding: it %s", (claims, what, issuer) => {
  expect(mistakesIn(claims, issuer)).toContainEqual(expect.stringContaining(what));
});

const meeting = (...accounts: readonly (readonly [account: string, environment?: string])[]) => {
  const subjects = accounts.map(([account, environment], i) => ({
    name: `n${i}`,
    claims: { ...safe, run_id: `${i}`, ...(environment && { environment }) },
    namespace: "ci",
    account,
  }));
  const table = { issuer: github, audiences: ["https://ca.test"], subjects };
  return subjectFindings(issuersOf(table)).map(({ what }) => what);
};

test.each<readonly (readonly [string, string?])[][]>([
  [[["x-prod"], ["x-{ref_type}"]]],
  [[["x-{run_id}"], ["x-{ref_type}"]]],
  [[["x-{environment}", "prod"], ["x-prod"]]],
  [[["{ref_type}.a"], ["x-{environment}.a"]]],
])("an entry that may give the account of another one has a finding: %j", (accounts) => {
  expect(meeting(...accounts)).toEqual([
    `The entry n1 of ${github} may give an account of the entry n0.`,
  ]);
});

test("an entry that may give the account of the one before it has a finding, whatever the first of all is", () => {
  expect(meeting(["y-prod"], ["x-prod"], ["x-{ref_type}"])).toEqual([
    `The entry n2 of ${github} may give an account of the entry n1.`,
  ]);
});

test.each<readonly (readonly [string, string?])[][]>([
  [[["repo-{repository_id}"], ["repo-{repository_id}"]]],
  [[["x-prod"], ["x-test"]]],
  [[["x-prod"], ["y-{ref_type}"]]],
  [[["x-{environment}", "test"], ["x-prod"]]],
  [[["x-{ref_type}"], ["x-{ref_type}.y"]]],
])("entries whose accounts are apart, or meant to be one, have none: %j", (accounts) => {
  expect(meeting(...accounts)).toEqual([]);
});
