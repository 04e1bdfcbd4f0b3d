import type { Circumstances } from "../../../src/ca/policy/circumstances.ts";

/** A rule as an operator writes it, with lists everywhere. */
export interface WrittenRule {
  readonly name: string;
  readonly shadow?: boolean;
  readonly since?: string;
  readonly when: {
    readonly [attribute: string]: readonly string[] | string | Record<string, readonly string[]>;
  };
  readonly then: {
    readonly deny?: string;
    readonly maximum_life?: string;
    readonly default_life?: string;
    readonly key_types?: readonly string[];
    readonly signer?: string;
    readonly audiences?: readonly string[];
    readonly dns_names?: readonly string[];
  };
}

/** What somebody who reads the rules from top to bottom says of a request. */
export interface NaiveVerdict {
  readonly rule: string | undefined;
  readonly isRefused: boolean;
  /** The life that counts as asked for. */
  readonly seconds: number;
}

const toPattern = (glob: string): RegExp =>
  new RegExp(`^${glob.replace(/[.\\/+?()[\]{}|^$-]/g, "\\$&").replaceAll("*", ".*")}$`);

const matches = (globs: unknown, text: string | undefined): boolean =>
  text !== undefined && (globs as string[]).some((glob) => toPattern(glob).test(text));

/** Whole hours, as the generated rules have them. */
const secondsOf = (hours: string): number => Number(hours.replace("h", "")) * 3600;

const attributes: Readonly<Record<string, (c: Circumstances) => string | undefined>> = {
  cluster: (c) => c.cluster,
  issuer: (c) => c.issuer,
  namespace: (c) => c.namespace,
  account: (c) => c.account,
  signer: (c) => c.signer,
  proof: (c) => c.proof,
  product: (c) => c.product,
  key_type: (c) => c.key_type,
};

const hiders: Readonly<Record<string, string>> = {
  cluster: "issuer",
  issuer: "issuer",
  namespace: "account",
  account: "account",
};

/** `may` where nothing shows what a request is denied for. */
function fits({ when, then, since }: WrittenRule, c: Circumstances): "yes" | "no" | "may" {
  let found: "yes" | "may" = "yes";
  for (const [name, value] of Object.entries(when)) {
    const read = attributes[name];
    if (c.hidden?.some((each) => each === hiders[name])) {
      if (then.deny === undefined) return "no";
      found = "may";
      continue;
    }
    if (read && !matches(value, read(c))) return "no";
    if (name === "caller") {
      const { namespace, account } = value as Record<string, readonly string[]>;
      if (namespace && !matches(namespace, c.caller.namespace)) return "no";
      if (account && !matches(account, c.caller.account)) return "no";
    }
    if (name === "claims") {
      if (c.hidden?.includes("claims")) {
        if (then.deny === undefined) return "no";
        found = "may";
        continue;
      }
      const globs = Object.entries(value as Record<string, readonly string[]>);
      const isFound = ([claim, each]: (typeof globs)[number]): boolean =>
        [c.claims?.[claim]].flat().some((text) => matches(each, text));
      if (!globs.every(isFound)) return "no";
    }
    if (name === "requested_over" && !((c.requested ?? 0) > secondsOf(String(value)))) {
      return "no";
    }
    if (name !== "node") continue;
    if (!c.hidden?.includes("node")) {
      if (!matches(value, c.node)) return "no";
    } else {
      const isYoung = c.provedAt !== undefined && c.provedAt > new Date(since ?? 0);
      if (then.deny === undefined || isYoung) return "no";
      found = "may";
    }
  }
  return found;
}

/** A second evaluator, which shares nothing with that of the CA. */
export function naively(
  rules: readonly WrittenRule[],
  circumstances: Circumstances,
  { defaultSeconds, maximumSeconds }: { defaultSeconds: number; maximumSeconds: number },
): NaiveVerdict {
  const asked = circumstances.requested ?? 0;
  for (const rule of rules) {
    if (rule.shadow || fits(rule, circumstances) === "no") continue;
    const { deny, key_types, maximum_life, default_life, audiences } = rule.then;
    const { key_type, product, audiences: asks = [] } = circumstances;
    const isOtherKey = key_type !== undefined && key_types?.includes(key_type) === false;
    const isOtherAudience =
      product === "token" && audiences && asks.some((each) => !matches(audiences, each));
    const isNameless =
      product === "workload" && rule.then.dns_names !== undefined && !circumstances.account;
    const isRefused = deny !== undefined || isOtherKey || isOtherAudience === true || isNameless;
    const ofRule = default_life === undefined ? defaultSeconds : secondsOf(default_life);
    const usual = Math.min(ofRule, maximumSeconds);
    const wanted = asked > 0 ? asked : usual;
    const isShort = maximum_life !== undefined && asked <= maximumSeconds;
    const seconds = isShort ? Math.min(wanted, secondsOf(maximum_life)) : wanted;
    return { rule: rule.name, isRefused, seconds };
  }
  return { rule: undefined, isRefused: false, seconds: asked > 0 ? asked : defaultSeconds };
}
