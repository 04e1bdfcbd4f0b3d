import { setImmediate as nextTurn } from "node:timers/promises";
import type { Circumstances } from "../../../ca/policy/circumstances.ts";
import { type Decisions, type Effect, type Outcome, Policy } from "../../../ca/policy/policy.ts";
import type { RuleTable } from "../../../ca/policy/rule.ts";

import { Configuration } from "../../../config/configuration.ts";
import { ConfigurationFile } from "../../../node/files/configuration-file.ts";
import type { LeafLifetimes } from "../../../pki/x509/validity.ts";
import { readConfig } from "../../session/local-worker.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import type { PastRequest } from "../log/logged-requests.ts";

/** Counts what a rule would have done with the requests that it decides. */
const newTally = (rule: string, isShadow: boolean) => ({
  /** The name of the rule; empty for the requests that no rule matches. */
  rule,
  isShadow,
  requests: 0,
  effects: { denied: 0, allowed: 0, shortened: 0, changed: 0, same: 0, unknown: 0 },
  /** The identities for which something would change, the first 1,000. */
  workloads: new Set<string>(),
  /** The first three requests for which something would change. */
  examples: [] as string[],
});
type Tally = ReturnType<typeof newTally>;

interface RuleReport extends Omit<Tally, "workloads"> {
  readonly workloads: readonly string[];
}

/** What the rules of a configuration would have done with past requests. */
export interface ReplayReport {
  readonly requests: number;
  readonly rules: readonly RuleReport[];
  /** The names of the rules that decide about none of the requests. */
  readonly unused: readonly string[];
  /** The number of requests for which a live rule, or its absence, would change something. */
  readonly changes: number;
}

/** The rules of a configuration, and its lifetimes of certificates and tokens. */
export interface Replayed {
  readonly policy: Policy;
  readonly lifetimesOf: (
    product: NonNullable<RuleTable["when"]["product"]>[number],
  ) => LeafLifetimes;
}

/** Rules with the configuration that contains them. */
export interface ReadRules extends Replayed {
  readonly configuration: Configuration;
}

/** The most identities and examples of a rule in a report. */
const maximumWorkloads = 1000;
const maximumExamples = 3;

/**
 * Applies the rules to past requests, and compares the outcomes with what was done then. The effect is `unknown` where
 * an entry records too little.
 */
export async function replay(
  rules: Replayed,
  ...sources: readonly (Iterable<PastRequest> | AsyncIterable<PastRequest>)[]
): Promise<ReplayReport> {
  const without = newTally("", false);
  const ofRules = rules.policy.rules.map(({ name, shadow }) => newTally(name, shadow));
  const tallies = new Map(ofRules.map((each) => [each.rule, each]));
  const add = ({ rule }: Decisions["live"], request: PastRequest, effect: Effect): void =>
    addTo(tallies.get(rule?.name ?? "") ?? without, request, effect);
  let asked = 0;
  for (const past of sources) {
    for await (const request of past) {
      if (asked++ % 1000 === 0) await nextTurn();
      const { live, shadow } = ruled(rules, request.circumstances);
      const isKnown = isToldBy(request, live);
      add(live, request, isKnown ? effectSince(live, request.made) : "unknown");
      if (!shadow) continue;
      const isShadowKnown = isKnown && isToldBy(request, shadow);
      add(shadow, request, isShadowKnown ? effectSince(shadow, live.outcome) : "unknown");
    }
  }
  const reports = [...ofRules, without].map((each) => ({
    ...each,
    workloads: [...each.workloads],
  }));
  const live = reports.filter(({ isShadow }) => !isShadow);
  return {
    requests: sum(live.map(({ requests }) => requests)),
    rules: reports.filter(({ requests }) => requests > 0),
    unused: ofRules.flatMap(({ rule, requests }) => (requests === 0 ? [rule] : [])),
    changes: sum(live.flatMap(({ effects }) => changing.map((each) => effects[each]))),
  };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

/** Whether a logged request records all that a rule looks at. */
const isToldBy = (
  { isVague, circumstances }: PastRequest,
  { rule, isCertain }: Decisions["live"],
) =>
  !isVague &&
  (isCertain || circumstances.requested !== undefined || rule?.when.requested_over === undefined);

/**
 * Applies the rules to a request. Whatever they say, a lifetime beyond the configuration's maximum is refused, or
 * shortened for an intermediate.
 */
export function ruled({ policy, lifetimesOf }: Replayed, asked: Circumstances): Decisions {
  const lifetimes = lifetimesOf(asked.product);
  const { maximumSeconds } = lifetimes;
  const isLong = (asked.requested ?? 0) > maximumSeconds;
  if (!isLong) return Policy.decide(policy, asked, lifetimes);
  // Subordinate CAs may request any lifetime, which is clamped instead of denied.
  if (asked.product === "intermediate") {
    return Policy.decide(policy, { ...asked, requested: maximumSeconds }, lifetimes);
  }
  const { live, shadow } = Policy.decide(policy, asked, lifetimes);
  const refused = ({ outcome, ...decision }: Decisions["live"]): Decisions["live"] => ({
    ...decision,
    outcome: { denied: "nobody may ask for so long a life", ...outcome },
  });
  return { live: refused(live), shadow: shadow && refused(shadow) };
}

/**
 * The effect of a rule on a logged request. It is unknown for a rule about lifetimes if the entry does not record the
 * requested one.
 */
function effectSince({ rule, outcome }: Decisions["live"], before: Outcome): Effect {
  const effect = Policy.effect(outcome, before);
  const { maximum_life, default_life } = rule?.then ?? {};
  const concernsLife = maximum_life !== undefined || default_life !== undefined;
  const isUnknown = outcome.lifeSeconds === undefined || before.lifeSeconds === undefined;
  return effect === "same" && concernsLife && isUnknown && !outcome.denied ? "unknown" : effect;
}

/** The effects of a rule that change an outcome. */
export const changing = ["denied", "allowed", "shortened", "changed"] as const;

function addTo(tally: Tally, { circumstances, count, place }: PastRequest, effect: Effect): void {
  tally.requests += count;
  tally.effects[effect] += count;
  if (!changing.some((each) => each === effect)) return;
  const { cluster = "?", namespace = "?", account = "?", product } = circumstances;
  const workload = `${cluster}: ${namespace}/${account}`;
  if (tally.workloads.size < maximumWorkloads) tally.workloads.add(workload);
  if (tally.examples.length >= maximumExamples) return;
  tally.examples.push(`${place}: ${workload}, ${product}, ${effect}`);
}

/** The configuration keys that the evaluation of a policy depends on. None of them is a secret. */
const judged = [
  ...["TRUST_DOMAIN", "ISSUERS", "SIGNERS", "POLICY", "DENIED"],
  ...["DEFAULT_WORKLOAD_CERT_TTL", "MAX_WORKLOAD_CERT_TTL", "DEFAULT_JWT_TTL", "MAX_JWT_TTL"],
];

const unjudged = {
  KEK: `none:${Buffer.alloc(32, 1).toString("base64")}`,
  JWT_ISSUER: "https://issuer.invalid",
};

/**
 * Reads the rules of a configuration, and prints its warnings about them. It needs no secrets: KEK and JWT_ISSUER are
 * placeholders in `configuration`, and other keys than those of the policy are left out.
 * @throws OperatorError with every fault of it.
 */
export async function readRules(
  terminal: Terminal,
  config: string,
  env?: string,
): Promise<ReadRules> {
  const values = /wrangler\.(?:toml|jsonc?)$/.test(config)
    ? (await readConfig(config, env)).vars
    : await orOperatorError(() => ConfigurationFile.read(config, {}));
  const entries = Object.entries(values).filter(([key]) => judged.includes(key));
  const configuration = await orOperatorError(async () =>
    Configuration.parse({ ...Object.fromEntries(entries), ...unjudged }),
  );
  if (!configuration.policy) terminal.complain(`${config} has no POLICY`);
  for (const warning of configuration.warnings) {
    if (warning.startsWith("POLICY")) terminal.complain(warning);
  }
  const policy = Policy.create(configuration.policy ?? { shadow: false, cases: [], rules: [] });
  const { leafLifetimes, tokens = leafLifetimes } = configuration;
  const lifetimesOf = (product: NonNullable<RuleTable["when"]["product"]>[number]) =>
    product === "token" ? tokens : leafLifetimes;
  return { policy, lifetimesOf, configuration };
}
