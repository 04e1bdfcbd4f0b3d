import { X509Certificate } from "node:crypto";
import type { Outcome } from "../../contract/rpc-calls.ts";
import { platformClaims } from "../../testkit/callers/foreign-tokens.ts";
import type { Claims } from "../../testkit/callers/tokens.ts";
import { type DomainName, domainNames } from "./domains.ts";

/** A token that is shown to a CA, and what its bearer must get: a SPIFFE ID, or a code. */
export interface Play {
  readonly what: string;
  readonly domain: DomainName;
  /** How its claims differ from those of the right caller. */
  readonly claims?: Claims;
  /** Who signs in place of the issuer. */
  readonly by?: DomainName;
  /** Another identity than its own, by `ImpersonatedIdentity`. */
  readonly named?: string;
  readonly gets: string;
}

export const identityAt = (domain: DomainName): string =>
  `spiffe://cluster.local/ns/at-${domain}/sa/deploy`;

const refused = "Unauthenticated";
const denied = "PermissionDenied";
const aws = "https://sts.amazonaws.com/";
const ofAws = (changes: Claims): Claims => ({ [aws]: { ...platformClaims.aws[aws], ...changes } });
const past = Math.floor(Date.now() / 1000) - 3600;
const audienceOf = (domain: DomainName): string => [platformClaims[domain].aud].flat()[0] ?? "";

/** SPIRE writes the times of its tokens by itself. */
const ofItsOwn = domainNames.filter((domain) => domain !== "spiffe");

/** What another tenant or another job of the platform has, who must get nothing. */
const others: Readonly<Record<DomainName, Readonly<Record<string, Claims>>>> = {
  github: {
    "another repository": { repository_id: "75", sub: "repo:octo-org@7/other@75:environment:prod" },
    "the freed name of the owner": { repository_owner_id: "8", repository_id: "99" },
    "a fork": { repository_id: "76", repository_owner_id: "9" },
    "a pull request": { event_name: "pull_request", environment: undefined },
    "a stranger's pull request": { event_name: "pull_request_target" },
    "a run after a stranger's": { event_name: "workflow_run" },
    "another environment": { environment: "test" },
    "a list with its id": { repository_id: ["75", 74], environment: ["test"] },
    "an object for its id": { repository_id: { "74": "74" } },
  },
  gitlab: {
    "another project": { project_id: "21", job_project_id: "21" },
    "the pipeline of a fork": { job_project_id: "21" },
    "a merge request": { pipeline_source: "merge_request_event" },
    "a protected tag of the branch's name": { ref_type: "tag" },
    "a branch without protection": { ref_protected: "false" },
    "a person": { project_id: undefined, job_project_id: undefined },
  },
  aws: {
    "another role": { sub: "arn:aws:iam::111122223333:role/other" },
    "another account": ofAws({ aws_account: "444455556666" }),
    "a subject of another principal": ofAws({ principal_id: "arn:aws:iam::1:role/x" }),
    "claims outside of AWS's object": { [aws]: undefined, ...platformClaims.aws[aws] },
  },
  google: {
    "the same address again": { sub: "112010400000000710081" },
    "an address that is not verified": { email_verified: false },
    "a number beyond 2^53": { sub: 112010400000000710080n.toString().slice(0, -1) },
  },
  azure: {
    "another tenant": { tid: "00000000-9fd5-4d4b-8f7f-0f2f2a6a1c55" },
    "another identity": { oid: "00000000-5e4f-4a3b-8c2d-1e0f9a8b7c6d" },
  },
  spiffe: {
    "another workload": { sub: "spiffe://other.test/ns/billing/sa/other" },
    "a longer path": { sub: "spiffe://other.test/ns/billing/sa/report/x" },
  },
};

const next = (domain: DomainName): DomainName => (domain === "github" ? "gitlab" : "github");

/** The plays of every platform on which a CA runs. */
export const plays: readonly Play[] = [
  ...domainNames.map((domain) => ({ what: "the right caller", domain, gets: identityAt(domain) })),
  ...domainNames.flatMap((domain) =>
    Object.entries(others[domain]).map(([what, claims]) => ({
      what,
      domain,
      claims,
      gets: refused,
    })),
  ),
  ...domainNames.flatMap((domain): Play[] => [
    { what: "another audience", domain, claims: { aud: "https://other.test" }, gets: refused },
    {
      what: "an audience beside this CA's",
      domain,
      claims: { aud: [audienceOf(domain), "https://other.test"] },
      gets: refused,
    },
    { what: "another identity by name", domain, named: identityAt(next(domain)), gets: denied },
  ]),
  ...ofItsOwn.flatMap((domain): Play[] => [
    { what: "an old token", domain, claims: { iat: past, exp: past + 300 }, gets: refused },
    { what: "another platform's key", domain, by: next(domain), gets: refused },
  ]),
  {
    what: "a repository that is denied",
    domain: "github",
    claims: { job_workflow_ref: "octo-org/evil/.github/workflows/a.yml@refs/heads/main" },
    gets: denied,
  },
  {
    what: "a denied group in a list",
    domain: "gitlab",
    claims: { groups_direct: ["my-group", "evil"] },
    gets: denied,
  },
  {
    what: "a recorded claim that is an object",
    domain: "github",
    claims: { job_workflow_ref: { a: "octo-org/evil/.github/workflows/a.yml@refs/heads/main" } },
    gets: refused,
  },
  {
    what: "a recorded claim that is too long for a denial",
    domain: "github",
    claims: { job_workflow_ref: `octo-org/evil/${"a".repeat(1100)}` },
    gets: refused,
  },
];

/** What stands against callers from the start. */
export const denials: readonly object[] = [
  "claim/job_workflow_ref=octo-org/evil/*",
  "claim/groups_direct=evil",
].map((subject) => ({ subject, since: new Date(Date.now() - 3_600_000).toISOString() }));

/** The SPIFFE ID of an answer, or its code. */
export function gotten(outcome: Outcome): string {
  if (!("certChain" in outcome)) return outcome.code;
  const { subjectAltName = "" } = new X509Certificate(outcome.certChain[0] ?? "");
  return subjectAltName.replace(/^URI:/, "");
}
