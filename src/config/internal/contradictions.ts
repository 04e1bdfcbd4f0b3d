import { Policy } from "../../ca/policy/policy.ts";
import type { PolicyTable, RuleTable } from "../../ca/policy/rule.ts";
import { commonName, nameAllowList } from "../../foundation/globs.ts";
import type { PhaseLengths } from "../../pki/authority/schedule.ts";
import type { LeafLifetimes } from "../../pki/x509/validity.ts";
import type { IssuerTable } from "../issuer-table.ts";
import type { SignerTable } from "../signer-table.ts";
import { recordedNames } from "./subject-table.ts";

/** The keys of the configuration to which rules refer. */
interface Surroundings {
  readonly POLICY?: PolicyTable | undefined;
  readonly ISSUERS: readonly IssuerTable[];
  readonly SIGNERS: readonly SignerTable[];
  readonly MAX_WORKLOAD_CERT_TTL: number;
  readonly MAX_JWT_TTL: number;
}

/** The contradictions in rules, each with its place. */
export function policyFaults(form: Surroundings): string[] {
  const rules = form.POLICY?.rules ?? [];
  return rules.flatMap((rule, i) =>
    faultsOf(rule, form).map((fault) => `POLICY.rules[${i}].${fault}`),
  );
}

/** The effects of a rule that are possible for one product only. */
const effects = [
  ["signer", "workload"],
  ["dns_names", "workload"],
  ["audiences", "token"],
] as const;

function faultsOf({ when, then, since }: RuleTable, form: Surroundings): readonly string[] {
  const { deny, maximum_life, default_life, key_types, signer } = then;
  const deniesByNode = deny !== undefined && when.node !== undefined;
  const keys = when.key_type ?? key_types ?? [];
  const faults: readonly [boolean, string][] = [
    [deny !== undefined && Object.keys(then).length > 1, "then.deny: must stand alone"],
    [
      (default_life ?? 0) > (maximum_life ?? Number.POSITIVE_INFINITY),
      "then.default_life: must not exceed maximum_life",
    ],
    ...(["maximum_life", "default_life"] as const).map((name): [boolean, string] => [
      (then[name] ?? 0) > form.MAX_WORKLOAD_CERT_TTL,
      `then.${name}: must not exceed MAX_WORKLOAD_CERT_TTL, which holds for every rule`,
    ]),
    [
      when.node !== undefined && !deniesByNode && Object.keys(then).length > 0,
      "when.node: stands in a rule that denies or does nothing, because a renewal by certificate does not show it",
    ],
    [
      when.claims !== undefined &&
        deny === undefined &&
        Object.keys(then).length > 0 &&
        form.ISSUERS.some(({ subjects, renewal_limit = 0 }) => subjects && renewal_limit > 0),
      "when.claims: stands in a rule that denies or does nothing, where a table with subjects has a renewal_limit, because a renewal by certificate does not show claims",
    ],
    [deniesByNode && !since, "since: is required where a rule denies by the node"],
    [!deniesByNode && since !== undefined, "since: has no effect where no node is denied"],
    [
      key_types?.some((type) => keys.includes(type)) === false,
      "then.key_types: refuses every key that the rule is for: write deny",
    ],
    ...effects.map(([name, product]): [boolean, string] => [
      then[name] !== undefined && when.product?.includes(product) === false,
      `then.${name}: has an effect on the product ${product} alone`,
    ]),
    [
      key_types !== undefined && when.product?.join() === "token",
      "then.key_types: has no effect on the product token, which has no key",
    ],
    [
      signer !== undefined && !form.SIGNERS.some(({ name }) => name === signer),
      "then.signer: must be one of SIGNERS",
    ],
  ];
  return faults.filter(([isFault]) => isFault).map(([, fault]) => fault);
}

/**
 * Finds the rules that can never decide, and those with audiences that no issuer has. @returns One sentence for each.
 */
export function idleRules(form: Surroundings): string[] {
  const rules = form.POLICY?.rules ?? [];
  const audiences = form.ISSUERS.flatMap(({ jwt_audiences = [] }) => jwt_audiences);
  const isShadow = (rule: RuleTable): boolean => rule.shadow || form.POLICY?.shadow === true;
  return rules.flatMap((rule, i) => {
    const place = `POLICY.rules[${i}] (${rule.name})`;
    const never = whyNever(rule.when, form);
    if (never !== undefined) return [`${place} never decides: ${never}`];
    if (!mayMatch(rule.then.audiences, audiences)) {
      return [`${place} denies every token: no table of ISSUERS has its audiences`];
    }
    const before = rules
      .slice(0, i)
      .find((other) => (!isShadow(other) || isShadow(rule)) && covers(other.when, rule.when));
    return before
      ? [`${place} never decides: ${before.name} before it fits all of its requests`]
      : [];
  });
}

type Globs = readonly string[] | undefined;

const mayMatch = (globs: Globs, names: readonly string[]): boolean =>
  !globs || globs.some((glob) => names.some((name) => commonName(glob, name) !== undefined));

function whyNever(when: RuleTable["when"], form: Surroundings): string | undefined {
  const { ISSUERS: issuers, SIGNERS: signers } = form;
  const isForTokens = when.product?.join() === "token";
  const key = isForTokens ? "MAX_JWT_TTL" : "MAX_WORKLOAD_CERT_TTL";
  const named = issuers.filter(
    ({ cluster, issuer }) => mayMatch(when.cluster, [cluster]) && mayMatch(when.issuer, [issuer]),
  );
  const vouching = issuers.flatMap(({ namespaces }) => namespaces);
  const isServed = ({ gateways, cluster_signers }: IssuerTable): boolean =>
    gateways.length + cluster_signers.length > 0;
  const possible = {
    workload: true,
    serving: issuers.some(isServed),
    intermediate: issuers.some(({ intermediates }) => intermediates.length > 0),
    token: issuers.some(({ jwt_audiences }) => jwt_audiences !== undefined),
  };
  const rules: readonly [boolean, string][] = [
    [named.length > 0, "no table of ISSUERS has such a cluster and issuer"],
    [
      named.some(({ namespaces }) => mayMatch(when.namespace, namespaces)),
      "no such issuer may vouch for the namespace",
    ],
    [mayMatch(when.caller?.namespace, vouching), "no issuer may vouch for the caller's namespace"],
    [
      mayMatch(
        when.signer,
        signers.map(({ name }) => name),
      ),
      "no table of SIGNERS has the name",
    ],
    [
      when.product?.some((product) => possible[product]) !== false,
      "no table of ISSUERS lets anybody have the product",
    ],
    [
      when.proof?.some((proof) => proof !== "forwarded" || possible.serving) !== false,
      "no table of ISSUERS has a gateway",
    ],
    [(when.requested_over ?? -1) < form[key], `who asks for more than ${key} is refused anyway`],
    [!isForTokens || !when.key_type, "a token has no key"],
    [
      Object.keys(when.claims ?? {}).every((name) =>
        issuers.some((table) => recordedNames(table).includes(name)),
      ),
      "no table of ISSUERS with subjects records the claim",
    ],
    [
      !when.signer || when.product?.includes("workload") !== false,
      "a request for no workload names a signer",
    ],
  ];
  return rules.find(([holds]) => !holds)?.[1];
}

/** Whether one condition matches whatever another one matches. */
function covers(one: RuleTable["when"], other: RuleTable["when"]): boolean {
  const others = Policy.texts(other);
  // A condition on the node does not match a credential that does not show the node.
  return (
    !one.node &&
    Policy.texts(one).every(([globs], i) => includes(globs, others[i]?.[0])) &&
    Object.entries(one.claims ?? {}).every(([name, globs]) =>
      includes(globs, other.claims?.[name]),
    ) &&
    (one.requested_over ?? -1) <= (other.requested_over ?? -1)
  );
}

/** Whether the globs match all that the others match. Each of the others is compared as a name, whose star only a star matches. */
function includes(globs: Globs, others: Globs): boolean {
  if (!globs) return true;
  return others?.every(nameAllowList(globs)) ?? false;
}

const hour = 3600;

/** The contradictions between the lengths of a configuration. */
export function contradictions(
  leaf: LeafLifetimes,
  phases: PhaseLengths,
  shortestPropagationSeconds: number,
): string[] {
  const { propagationSeconds, longestLeafSeconds, signingSeconds } = phases;
  const overlapSeconds = longestLeafSeconds + propagationSeconds;
  const rules: readonly [boolean, string][] = [
    [leaf.defaultSeconds > 0, "DEFAULT_WORKLOAD_CERT_TTL: must be longer than 0s"],
    [
      leaf.defaultSeconds <= leaf.maximumSeconds,
      "DEFAULT_WORKLOAD_CERT_TTL: must not exceed MAX_WORKLOAD_CERT_TTL",
    ],
    [
      leaf.maximumSeconds <= 10 * 366 * 24 * hour,
      "MAX_WORKLOAD_CERT_TTL: must not exceed ten years",
    ],
    [
      propagationSeconds === 0 || propagationSeconds >= shortestPropagationSeconds,
      `PROPAGATION_INTERVAL: must be at least ${shortestPropagationSeconds}s (0s only where the store has one reader)`,
    ],
    [
      signingSeconds >= 2 * overlapSeconds,
      `AUTHORITY_LIFETIME: must be at least ${4 * overlapSeconds}s, four times MAX_WORKLOAD_CERT_TTL and PROPAGATION_INTERVAL together`,
    ],
    [signingSeconds <= 100 * 366 * 24 * hour, "AUTHORITY_LIFETIME: must not exceed a century"],
  ];
  return rules.filter(([holds]) => !holds).map(([, fault]) => fault);
}
