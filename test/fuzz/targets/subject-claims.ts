import { callerWithin } from "../../../src/authn/token-authenticator.ts";
import { IssuerTable } from "../../../src/config/issuer-table.ts";
import { namespaceRights, subjectMappingOf } from "../../../src/config/token-issuers.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { parseJson } from "../../../src/foundation/json.ts";
import type { Members } from "../../../src/foundation/json-members.ts";
import type { Random } from "../../simulation/random.ts";
import { claimsOf, platformClaims } from "../../testkit/callers/foreign-tokens.ts";
import { naively } from "../../testkit/callers/naive-subjects.ts";
import { claimsIssuerWithoutKeys } from "../../testkit/callers/token-issuers.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { judgedAt } from "../corpus/tokens.ts";
import { indexBelow, oneOf } from "../mutation/choice.ts";
import { mutateJson } from "../mutation/json.ts";
import { requireThat, type Target } from "./target.ts";

/**
 * Tokens of two tenants with tables of claims. A token gets the account that a naive reader of its table gives it, and never
 * one of the other tenant's namespaces.
 */
export const subjectClaims: Target = {
  generate: (random) => {
    const tables = [tableOf(random, "a"), tableOf(random, "b")];
    const platform = oneOf(random, Object.keys(platformClaims) as (keyof typeof platformClaims)[]);
    const claims = {
      ...claimsOf(platform, judgedAt),
      aud: "https://ca.test",
      tenant: oneOf(random, tenants),
    };
    const token = random.chance(0.75) ? mutateJson(random, claims) : JSON.stringify(claims);
    const written = random.chance(0.2) ? mutateJson(random, tables) : JSON.stringify(tables);
    return Buffer.from(`${written}\n${token}`);
  },
  judge: async (octets) => {
    const [written = "", ...rest] = octets.toString("utf8").split("\n");
    const [tables, claims] = [written, rest.join("\n")].map(jsonIn);
    const parsed = IssuerTable.schema.safeParse(tables);
    if (!parsed.success) return "tables refused";
    if (typeof claims !== "object" || claims === null || Array.isArray(claims)) return "no claims";
    const outcomes = parsed.data.map((table, i) => {
      const given = accountOf(table, claims as Members);
      const raw = (tables as Written[])[i] ?? {};
      const naive = table.subjects && naively(raw, claims as Written, judgedAt.getTime() / 1000);
      if (given.account === undefined)
        return naive === undefined ? given.why : `${given.why}, given naively`;
      requireThat(given.account === naive, `gave ${given.account}, and not ${naive}`);
      const others = parsed.data.filter((other) => other !== table);
      const isReached = others.some(({ namespaces }) =>
        namespaces.includes(String(given.account?.split("/")[0])),
      );
      requireThat(
        !isReached || isNamed(table, given.account),
        "reached another tenant's namespace",
      );
      return "accepted";
    });
    return outcomes.join(" and ");
  },
};

type Written = Readonly<Record<string, unknown>>;

function jsonIn(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** An account that an operator has written without a claim in it. */
const isNamed = ({ subjects = [] }: IssuerTable, account: string): boolean =>
  subjects.some(({ namespace, account: name }) => `${namespace}/${name}` === account);

function accountOf(
  table: IssuerTable,
  claims: Members,
): { readonly account?: string; readonly why: string } {
  const subjects = subjectMappingOf(table);
  if (!subjects) return { why: "a cluster" };
  const issuer = {
    ...claimsIssuerWithoutKeys(table.issuer),
    ...namespaceRights(table),
    subjects,
  };
  try {
    const mapped = issuer.subjects.map(claims, table.audiences, judgedAt);
    const { spiffeId, account } = callerWithin(issuer, mapped, null, {
      trustDomain: clusterLocal,
      now: judgedAt,
    });
    const path = `${account.namespace}/${account.name}`;
    requireThat(
      spiffeId === `spiffe://cluster.local/ns/${account.namespace}/sa/${account.name}`,
      "gave another SPIFFE ID than the account's",
    );
    return { account: path, why: "" };
  } catch (error) {
    if (!(error instanceof CaError)) throw error;
    const { refusal } = error;
    return { why: refusal.reason === "credential-rejected" ? refusal.check : refusal.reason };
  }
}

const tenants = [
  "team-a",
  "team-b",
  "b",
  "a-x",
  "team-a/..",
  "Team-A",
  "",
  7,
  true,
  ["team-b"],
  "team-b\u0000",
];

const conditions: readonly object[] = [
  { repository_id: "74" },
  { repository_id: ["74", 75], environment: "prod" },
  { repository: "octo-org/*" },
  { sub: "repo:octo-org@7/*@74:environment:prod" },
  { sub: "*" },
  { ref_protected: true },
  { project_id: 20, groups_direct: "my-group" },
  { runner_id: "1" },
  { "https://sts.amazonaws.com/": { aws_account: "111122223333" } },
  { "https://sts.amazonaws.com/": { request_tags: { team: "pay*" } } },
  { google: { compute_engine: { project_number: 739419398126 } } },
  { email_verified: "true" },
  { tid: "7f1c0e64-9fd5-4d4b-8f7f-0f2f2a6a1c55" },
  { sub: "spiffe://other.test/ns/*/sa/*" },
  { sub: "arn:aws:iam::111122223333:role/*" },
  { tenant: ["team-*", "*"] },
];

const accounts = [
  ...["deploy", "{tenant}", "x-{tenant}", "{repository_id}.{environment}", "{ref}", "{runner_id}"],
  ...["p{google.compute_engine.project_number}", '{"https://sts.amazonaws.com/".aws_account}'],
  "{'https://sts.amazonaws.com/'.aws_account}",
  ...["{oid}", "{project_id}", "a.{tenant}.b", "{groups_direct}", "{constructor}"],
];

/** The table of a tenant, whose claims are partly its own to choose. */
function tableOf(random: Random, tenant: string): object {
  const subjects = Array.from({ length: 1 + indexBelow(random, 4) }, (_, i) => ({
    name: `n${i}`,
    claims: { ...oneOf(random, conditions), ...(random.chance(0.3) && oneOf(random, conditions)) },
    namespace: oneOf(random, [
      `team-${tenant}`,
      `team-${tenant}`,
      `team-${tenant}-{tenant}`,
      "{tenant}",
    ]),
    account: oneOf(random, accounts),
    ...(random.chance(0.2) && { maximum_age: "1h" }),
    ...(random.chance(0.2) && { once: true }),
  }));
  return {
    issuer: `https://${tenant}.test`,
    audiences: ["https://ca.test"],
    namespaces: [`team-${tenant}`, `team-${tenant}-*`],
    subjects,
  };
}
