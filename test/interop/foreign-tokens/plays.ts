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
  /** Another identity than its own, by `ImpersonatedIdentity`. */
  readonly named?: string;
  readonly gets: string;
}

export const identityAt = (domain: DomainName): string =>
  `spiffe://cluster.local/ns/at-${domain}/sa/deploy`;

const refused = "Unauthenticated";
const denied = "PermissionDenied";
const aws = "https://sts.amazonaws.com/";

/** What another tenant or another job of the platform has, who must get nothing. */
const others: Readonly<Record<DomainName, Claims>> = {
  github: { repository_id: "76", repository_owner_id: "9" },
  gitlab: { job_project_id: "21" },
  aws: { [aws]: { ...platformClaims.aws[aws], aws_account: "444455556666" } },
  google: { sub: "112010400000000710081" },
  azure: { tid: "00000000-9fd5-4d4b-8f7f-0f2f2a6a1c55" },
  spiffe: { sub: "spiffe://other.test/ns/billing/sa/other" },
};

const next = (domain: DomainName): DomainName => (domain === "github" ? "gitlab" : "github");

/** Of the tokens of each platform; the contract of `subjects` has more, on every platform of a CA. */
export const plays: readonly Play[] = domainNames.flatMap((domain): Play[] => [
  { what: "the right caller", domain, gets: identityAt(domain) },
  { what: "another tenant", domain, claims: others[domain], gets: refused },
  { what: "another audience", domain, claims: { aud: "https://other.test" }, gets: refused },
  { what: "another identity by name", domain, named: identityAt(next(domain)), gets: denied },
]);

/** The SPIFFE ID of an answer, or its code. */
export function gotten(outcome: Outcome): string {
  if (!("certChain" in outcome)) return outcome.code;
  const { subjectAltName = "" } = new X509Certificate(outcome.certChain[0] ?? "");
  return subjectAltName.replace(/^URI:/, "");
}
