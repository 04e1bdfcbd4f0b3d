import { sha256 } from "@noble/hashes/sha2.js";
import { recordedClaim } from "../../authn/subject-claims.ts";
import { DnsName } from "../../foundation/addresses.ts";
import { nameAllowList } from "../../foundation/globs.ts";
import { Hex } from "../../pki/encoding/bytes.ts";
import type { LeafLifetimes } from "../../pki/x509/validity.ts";
import type { Circumstances, Hidden } from "./circumstances.ts";
import type { PolicyTable, RuleTable } from "./rule.ts";

/** Whether a condition matches; `undefined` if the request does not show it. */
type Fit = boolean | undefined;

/** A rule with its conditions compiled. */
export interface Rule extends RuleTable {
  readonly fits: (circumstances: Circumstances) => Fit;
}

/** The rule that decides, and its outcome. */
interface Decision {
  /** The rule; `undefined` if none matches. */
  readonly rule: Rule | undefined;
  /** Whether the rule matches for certain: no attribute that it needs is hidden. */
  readonly isCertain: boolean;
  readonly outcome: Outcome;
}

/** The decision of the live rules, and the decision of the rule in shadow that matches before them. */
export interface Decisions {
  readonly live: Decision;
  readonly shadow: Decision | undefined;
}

/** The rules of a CA, in their order. */
export interface Policy {
  /** SHA-256 in hexadecimal of the rules, including whether each is applied or in shadow. */
  readonly hash: string;
  readonly rules: readonly Rule[];
}

/** Compiles and evaluates policies. */
export const Policy = {
  /** Compiles the rules of a table. If the table is in shadow, all of them are. */
  create(table: PolicyTable): Policy {
    const tables = table.rules.map((each) => ({ ...each, shadow: each.shadow || table.shadow }));
    const hash = Hex.format(sha256(new TextEncoder().encode(JSON.stringify(tables))));
    return { hash, rules: tables.map((each) => ({ ...each, fits: fitOf(each) })) };
  },

  /** Decides by the first rule that fits. `shadow` is the decision of the first rule in shadow before it. */
  decide({ rules }: Policy, circumstances: Circumstances, lifetimes: LeafLifetimes): Decisions {
    const decision = (rule?: Rule, isCertain = true): Decision => ({
      rule,
      isCertain,
      outcome: outcomeOf(rule, circumstances, lifetimes, isCertain),
    });
    let shadow: Decision | undefined;
    for (const rule of rules) {
      if (rule.shadow && shadow) continue;
      const fit = rule.fits(circumstances);
      if (fit === false) continue;
      const found = decision(rule, fit === true);
      if (!rule.shadow) return { live: found, shadow };
      shadow = found;
    }
    return { live: decision(), shadow };
  },

  /** The hidden attributes of a request; empty if it shows all of them. */
  hidden: (found: Readonly<Record<Hidden, boolean>>): Pick<Circumstances, "hidden"> => {
    const hidden = (["issuer", "account", "node", "claims"] as const).filter((each) => found[each]);
    return hidden.length > 0 ? { hidden } : {};
  },

  /**
   * The conditions on texts, except claims: the globs, the attribute that they match, and the {@link Hidden} that makes it
   * unknown.
   */
  texts: ({ caller = {}, ...when }: RuleTable["when"]): readonly Text[] => [
    [when.cluster, (c) => c.cluster, "issuer"],
    [when.issuer, (c) => c.issuer, "issuer"],
    [when.namespace, (c) => c.namespace, "account"],
    [when.account, (c) => c.account, "account"],
    [when.node, (c) => c.node, "node"],
    [caller.namespace, (c) => c.caller.namespace],
    [caller.account, (c) => c.caller.account],
    [when.signer, (c) => c.signer],
    [when.proof, (c) => c.proof],
    [when.product, (c) => c.product],
    [when.key_type, (c) => c.key_type],
  ],

  /** How an outcome differs from the one before, so that effects can be counted; `unknown` if one of the lifetimes is. */
  effect(after: Outcome, before: Outcome): Effect {
    if (after.denied !== undefined) return before.denied === undefined ? "denied" : "same";
    if (before.denied !== undefined) return "allowed";
    if (after.signer !== before.signer) return "changed";
    if (after.dnsNames?.join() !== before.dnsNames?.join()) return "changed";
    if (after.lifeSeconds === before.lifeSeconds) return "same";
    if (after.lifeSeconds === undefined || before.lifeSeconds === undefined) return "unknown";
    return after.lifeSeconds < before.lifeSeconds ? "shortened" : "changed";
  },
};

type Test = (circumstances: Circumstances) => Fit;

type Read = (circumstances: Circumstances) => string | readonly string[] | undefined;

type Text = readonly [globs: readonly string[] | undefined, read: Read, hidden?: Hidden];

const claimsOf = ({ claims = {} }: RuleTable["when"]): readonly Text[] =>
  Object.entries(claims).map(([name, globs]) => [
    globs,
    ({ claims: found = {} }) => recordedClaim(found, name),
    "claims",
  ]);

function fitOf({ when, then, since }: RuleTable): Rule["fits"] {
  // A rule that denies fits a hidden attribute, too, because its value may be the denied one. Other rules do not.
  const unshown: Fit = then.deny === undefined ? false : undefined;
  const texts = [...Policy.texts(when), ...claimsOf(when)];
  const tests = texts.flatMap(([globs, read, hider]): Test[] => {
    const without: Test = (c) => {
      if (!hider || !c.hidden?.includes(hider)) return false;
      return hider === "node" && isYounger(c, since) ? false : unshown;
    };
    return globs ? [textTest(globs, read, without)] : [];
  });
  const { requested_over: over } = when;
  // Old entries of the log do not record the requested lifetime.
  if (over !== undefined) {
    tests.push(({ requested }) => (requested === undefined ? undefined : requested > over));
  }
  return (circumstances) => {
    let fit: Fit = true;
    for (const test of tests) {
      const found = test(circumstances);
      if (found === false) return false;
      if (found === undefined) fit = undefined;
    }
    return fit;
  };
}

/** Whether the token was accepted after every process knew the rule: a token of a denied node would have been refused. */
const isYounger = ({ provedAt }: Circumstances, since: Date | undefined): boolean =>
  provedAt !== undefined && since !== undefined && provedAt > since;

/**
 * Tests whether a text of the request, or one of a list, matches a glob.
 * @param without Judges a request that has no such text, or does not show it.
 */
function textTest(globs: readonly string[], read: Read, without: Test): Test {
  const matches = nameAllowList(globs);
  return (circumstances) => {
    const found = read(circumstances);
    if (typeof found === "string") return matches(found);
    return found?.length ? found.some(matches) : without(circumstances);
  };
}

/** What a caller gets by a decision: a denial, or lifetime, signer and names. */
export interface Outcome {
  /** Why the caller gets nothing. */
  readonly denied?: string | undefined;
  /** Whether only the audience of a token is denied. */
  readonly isForAudience?: boolean;
  /** The lifetime to grant; `undefined` if it is unknown what was requested. */
  readonly lifeSeconds: number | undefined;
  readonly signer: string | undefined;
  /** The DNS names that a workload's certificate gets beside its SPIFFE ID. */
  readonly dnsNames?: readonly string[] | undefined;
}

/**
 * Applies a rule to a request; without one, only the lifetimes.
 *
 * @param isCertain Whether the request shows everything that the rule's conditions look at.
 */
export function outcomeOf(
  rule: Rule | undefined,
  circumstances: Circumstances,
  lifetimes: LeafLifetimes,
  isCertain = true,
): Outcome {
  const { requested, key_type, product, signer } = circumstances;
  const { then = {}, name = "" } = rule ?? {};
  const lifeSeconds = lifeUnder(then, requested, lifetimes);
  const outcome = {
    lifeSeconds,
    signer: product === "workload" ? (then.signer ?? signer) : signer,
  };
  if (then.deny !== undefined) {
    const why = isCertain ? then.deny : "nothing shows that it is for nobody of that kind";
    return { ...outcome, denied: `the rule ${name} denies it: ${why}` };
  }
  if (then.key_types && key_type !== undefined && !then.key_types.includes(key_type)) {
    return { ...outcome, denied: `the rule ${name} allows no key of the type ${key_type}` };
  }
  if (product === "token" && !areAllowed(circumstances.audiences, then.audiences)) {
    const denied = `the rule ${name} allows no such audience`;
    return { ...outcome, denied, isForAudience: true };
  }
  if (!then.dns_names || product !== "workload") return outcome;
  const dnsNames = dnsNamesOf(then.dns_names, circumstances);
  if (dnsNames) return { ...outcome, dnsNames };
  return { ...outcome, denied: `the rule ${name} makes no DNS name of the account's` };
}

const areAllowed = (audiences: readonly string[] = [], globs: readonly string[] = ["*"]): boolean =>
  audiences.every(nameAllowList(globs));

/**
 * The DNS names by a rule's templates. A placeholder is a whole label, and an account with a dot gets no DNS name, so
 * two accounts share a name only if the template has no placeholder.
 */
function dnsNamesOf(
  templates: readonly string[],
  { namespace = "", account = "" }: Circumstances,
): readonly string[] | undefined {
  const names = templates.map((template) =>
    template
      .split(".")
      .map((label) => ({ "{namespace}": namespace, "{account}": account })[label] ?? label),
  );
  const areLabels = names.flat().every((label) => DnsName.label.test(label));
  const joined = [...new Set(names.map((labels) => labels.join(".")))];
  return areLabels && joined.every(DnsName.is) ? joined : undefined;
}

/**
 * The lifetime under a rule. A request beyond the CA's own maximum is not shortened but refused, as without a rule. A
 * rule's default may be meant for certificates, which live longer than tokens, so it is bounded by the product's
 * maximum.
 */
function lifeUnder(
  { maximum_life: maximum = Number.POSITIVE_INFINITY, default_life }: RuleTable["then"],
  requested: number | undefined,
  { defaultSeconds, maximumSeconds }: LeafLifetimes,
): number | undefined {
  if (requested === undefined) return undefined;
  if (requested > maximumSeconds) return requested;
  const wanted = requested > 0 ? requested : (default_life ?? defaultSeconds);
  return Math.min(maximum, maximumSeconds, wanted);
}

/** The ways in which an outcome can differ from the one before. */
export const effects = ["denied", "allowed", "shortened", "changed", "same", "unknown"] as const;

/** How an outcome differs from the one before. */
export type Effect = (typeof effects)[number];
