import { sha256 } from "@noble/hashes/sha2.js";
import { dnsLabel, isDnsName } from "../../foundation/addresses.ts";
import { nameAllowList } from "../../foundation/globs.ts";
import { toHex } from "../../pki/encoding/bytes.ts";
import type { LeafLifetimes } from "../../pki/x509/validity.ts";
import type { Circumstances, Hidden } from "./circumstances.ts";
import type { Condition, PolicyTable, RuleTable } from "./rule.ts";

/** Whether a condition holds; `undefined` where the circumstances do not tell. */
type Fit = boolean | undefined;

/** A rule, ready to be held against requests. */
export interface Rule extends RuleTable {
  readonly fits: (circumstances: Circumstances) => Fit;
}

/** The rule that decides, and what comes of it. */
export interface Decision {
  /** None where no rule fits. */
  readonly rule: Rule | undefined;
  /** Whether it is known that the rule fits. */
  readonly isCertain: boolean;
  readonly outcome: Outcome;
}

/** What the live rules decide, and what a rule in shadow before them would. */
export interface Decisions {
  readonly live: Decision;
  readonly shadow: Decision | undefined;
}

/** The rules of a CA, in their order. */
export interface Policy {
  /** SHA-256 in hexadecimal of the rules as they count. */
  readonly hash: string;
  readonly rules: readonly Rule[];
}

/** The rules of a table. */
export function createPolicy(table: PolicyTable): Policy {
  const tables = table.rules.map((each) => ({ ...each, shadow: each.shadow || table.shadow }));
  const hash = toHex(sha256(new TextEncoder().encode(JSON.stringify(tables))));
  return { hash, rules: tables.map((each) => ({ ...each, fits: fitOf(each) })) };
}

/** Walks through the rules. The first that fits decides; the first in shadow before it would have. */
export function decide(
  { rules }: Policy,
  circumstances: Circumstances,
  lifetimes: LeafLifetimes,
): Decisions {
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
}

function fitOf(rule: RuleTable): Rule["fits"] {
  const tests = testsOf(rule);
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

type Test = (circumstances: Circumstances) => Fit;

/** Those that are hidden; nothing where all is shown. */
export const hiddenIn = (
  found: Readonly<Record<Hidden, boolean>>,
): Pick<Circumstances, "hidden"> => {
  const hidden = (["issuer", "account", "node"] as const).filter((each) => found[each]);
  return hidden.length > 0 ? { hidden } : {};
};

type Read = (circumstances: Circumstances) => string | undefined;

/** The texts of a condition, what each is held against, and what may hide that. */
export const textsOf = ({
  caller = {},
  ...when
}: Condition): readonly (readonly [readonly string[] | undefined, Read, Hidden?])[] => [
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
];

function testsOf({ when, then, since }: RuleTable): readonly Test[] {
  // What is hidden may be what a rule denies. Any other rule fits what is shown alone.
  const unshown: Fit = then.deny === undefined ? false : undefined;
  const ofTexts = textsOf(when).flatMap(([globs, read, hider]): Test[] => {
    const without: Test = (c) => {
      if (!hider || !c.hidden?.includes(hider)) return false;
      return hider === "node" && isYounger(c, since) ? false : unshown;
    };
    return globs ? [textTest(globs, read, without)] : [];
  });
  const { requested_over: over } = when;
  return over === undefined ? ofTexts : [...ofTexts, overTest(over)];
}

/** An old entry of the log does not say what was asked for. */
const overTest =
  (over: number): Test =>
  ({ requested }) =>
    requested === undefined ? undefined : requested > over;

/** Whether a token was accepted after every process knew of a rule: then it was of no denied node. */
const isYounger = ({ provedAt }: Circumstances, since: Date | undefined): boolean =>
  provedAt !== undefined && since !== undefined && provedAt > since;

/** @param without Judges a request that has no such text, or does not show it. */
function textTest(globs: readonly string[], read: Read, without: Test): Test {
  const matches = nameAllowList(globs);
  return (circumstances) => {
    const text = read(circumstances);
    return text === undefined ? without(circumstances) : matches(text);
  };
}

/** What a caller gets under a decision. */
export interface Outcome {
  /** Why it gets nothing. */
  readonly denied?: string | undefined;
  /** Whether it would get something for another audience. */
  readonly isForAudience?: boolean;
  /** The life that counts as asked for; `undefined` where nobody knows what was. */
  readonly lifeSeconds: number | undefined;
  readonly signer: string | undefined;
  /** Of a workload, beside its SPIFFE ID. */
  readonly dnsNames?: readonly string[] | undefined;
}

/** What comes of a request under a rule, or without one. */
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
 * A placeholder is a whole label, and an account with a dot has no DNS name: so two accounts have one name only
 * where the template says so.
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
  const areLabels = names.flat().every((label) => dnsLabel.test(label));
  const joined = [...new Set(names.map((labels) => labels.join(".")))];
  return areLabels && joined.every(isDnsName) ? joined : undefined;
}

/**
 * More than the CA's own maximum is not shortened, but refused as without a rule. A default of a rule may be
 * meant for certificates, which live longer than tokens.
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

/** The differences that a rule makes. */
export const effects = ["denied", "allowed", "shortened", "changed", "same", "unknown"] as const;
export type Effect = (typeof effects)[number];

/** How one outcome differs from another, for counts. */
export function effectOf(after: Outcome, before: Outcome): Effect {
  if (after.denied !== undefined) return before.denied === undefined ? "denied" : "same";
  if (before.denied !== undefined) return "allowed";
  if (after.signer !== before.signer) return "changed";
  if (after.dnsNames?.join() !== before.dnsNames?.join()) return "changed";
  if (after.lifeSeconds === before.lifeSeconds) return "same";
  if (after.lifeSeconds === undefined || before.lifeSeconds === undefined) return "unknown";
  return after.lifeSeconds < before.lifeSeconds ? "shortened" : "changed";
}
