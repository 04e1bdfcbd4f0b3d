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

/** The sentences whose faults are there, in their order. */
const sentencesOf = (faults: Readonly<Record<string, boolean>>): string[] =>
  Object.entries(faults).flatMap(([sentence, isThere]) => (isThere ? [sentence] : []));

function faultsOf({ when, then, since }: RuleTable, form: Surroundings): readonly string[] {
  const { deny, maximum_life, default_life, key_types, signer, dns_names, audiences } = then;
  const deniesByNode = deny !== undefined && when.node !== undefined;
  const changes = deny === undefined && Object.keys(then).length > 0;
  const keys = when.key_type ?? key_types ?? [];
  const isNeverFor = (product: "workload" | "token"): boolean =>
    when.product?.includes(product) === false;
  return sentencesOf({
    "then.deny: must stand alone": deny !== undefined && Object.keys(then).length > 1,
    "then.default_life: must not exceed maximum_life":
      (default_life ?? 0) > (maximum_life ?? Number.POSITIVE_INFINITY),
    "then.maximum_life: must not exceed MAX_WORKLOAD_CERT_TTL, which holds for every rule":
      (maximum_life ?? 0) > form.MAX_WORKLOAD_CERT_TTL,
    "then.default_life: must not exceed MAX_WORKLOAD_CERT_TTL, which holds for every rule":
      (default_life ?? 0) > form.MAX_WORKLOAD_CERT_TTL,
    "when.node: stands in a rule that denies or does nothing, because a renewal by certificate does not show it":
      when.node !== undefined && changes,
    "when.claims: stands in a rule that denies or does nothing, where a table with subjects has a renewal_limit, because a renewal by certificate does not show claims":
      when.claims !== undefined &&
      changes &&
      form.ISSUERS.some(({ subjects, renewal_limit = 0 }) => subjects && renewal_limit > 0),
    "since: is required where a rule denies by the node": deniesByNode && !since,
    "since: has no effect where no node is denied": !deniesByNode && since !== undefined,
    "then.key_types: refuses every key that the rule is for: write deny":
      key_types?.some((type) => keys.includes(type)) === false,
    "then.signer: has an effect on the product workload alone":
      signer !== undefined && isNeverFor("workload"),
    "then.dns_names: has an effect on the product workload alone":
      dns_names !== undefined && isNeverFor("workload"),
    "then.audiences: has an effect on the product token alone":
      audiences !== undefined && isNeverFor("token"),
    "then.key_types: has no effect on the product token, which has no key":
      key_types !== undefined && when.product?.join() === "token",
    "then.signer: must be one of SIGNERS":
      signer !== undefined && !form.SIGNERS.some(({ name }) => name === signer),
  });
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
  const [first] = sentencesOf({
    "no table of ISSUERS has such a cluster and issuer": named.length === 0,
    "no such issuer may vouch for the namespace": !named.some(({ namespaces }) =>
      mayMatch(when.namespace, namespaces),
    ),
    "no issuer may vouch for the caller's namespace": !mayMatch(when.caller?.namespace, vouching),
    "no table of SIGNERS has the name": !mayMatch(
      when.signer,
      signers.map(({ name }) => name),
    ),
    "no table of ISSUERS lets anybody have the product":
      when.product?.some((product) => possible[product]) === false,
    "no table of ISSUERS has a gateway":
      when.proof?.some((proof) => proof !== "forwarded" || possible.serving) === false,
    [`who asks for more than ${key} is refused anyway`]: (when.requested_over ?? -1) >= form[key],
    "a token has no key": isForTokens && when.key_type !== undefined,
    "no table of ISSUERS with subjects records the claim": Object.keys(when.claims ?? {}).some(
      (name) => !issuers.some((table) => recordedNames(table).includes(name)),
    ),
    "a request for no workload names a signer":
      when.signer !== undefined && when.product?.includes("workload") === false,
  });
  return first;
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
  return sentencesOf({
    "DEFAULT_WORKLOAD_CERT_TTL: must be longer than 0s": leaf.defaultSeconds <= 0,
    "DEFAULT_WORKLOAD_CERT_TTL: must not exceed MAX_WORKLOAD_CERT_TTL":
      leaf.defaultSeconds > leaf.maximumSeconds,
    "MAX_WORKLOAD_CERT_TTL: must not exceed ten years": leaf.maximumSeconds > 10 * 366 * 24 * hour,
    [`PROPAGATION_INTERVAL: must be at least ${shortestPropagationSeconds}s (0s only where the store has one reader)`]:
      propagationSeconds !== 0 && propagationSeconds < shortestPropagationSeconds,
    [`AUTHORITY_LIFETIME: must be at least ${4 * overlapSeconds}s, four times MAX_WORKLOAD_CERT_TTL and PROPAGATION_INTERVAL together`]:
      signingSeconds < 2 * overlapSeconds,
    "AUTHORITY_LIFETIME: must not exceed a century": signingSeconds > 100 * 366 * 24 * hour,
  });
}
