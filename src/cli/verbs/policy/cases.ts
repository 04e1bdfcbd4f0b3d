import type { Command } from "commander";
import type { Circumstances } from "../../../ca/policy/circumstances.ts";
import { hiddenIn, type Outcome } from "../../../ca/policy/policy.ts";
import { type Question, question } from "../../../ca/policy/rule.ts";
import type { Configuration } from "../../../config/configuration.ts";
import { parseForm } from "../../../config/form.ts";
import { ConfigurationError, OperatorError } from "../../../foundation/errors.ts";
import { configOf } from "../../session/deployment.ts";
import { usageError } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { readRules, ruled } from "./replayed.ts";

/** What the CA would know of a described request. A mesh of one issuer need not name it. */
function circumstancesOf(asks: Question, { issuers }: Configuration): Circumstances {
  const { namespace, account, caller = { namespace, account }, node, proof } = asks;
  const table = issuers.find(
    (each) =>
      (asks.issuer ?? each.issuer) === each.issuer &&
      (asks.cluster ?? each.cluster) === each.cluster,
  );
  return {
    ...{ cluster: table?.cluster, issuer: table?.issuer, ...asks, caller },
    ...hiddenIn({ issuer: false, account: false, node: proof !== "token" && !node }),
  };
}

/** Holds the rules to the cases beside them. @throws OperatorError with one line for each that fails. */
export async function testRules(
  terminal: Terminal,
  config: string,
  env: string | undefined,
): Promise<void> {
  const rules = await readRules(terminal, config, env);
  const cases = rules.configuration.policy?.cases ?? [];
  if (cases.length === 0) throw new OperatorError(`${config}: POLICY has no cases`);
  const faults = cases.flatMap(({ asks, expect }, i) => {
    const { rule, outcome } = ruled(rules, circumstancesOf(asks, rules.configuration)).live;
    const found = {
      rule: rule?.name ?? "",
      denied: outcome.denied !== undefined,
      life: outcome.lifeSeconds,
      signer: outcome.signer ?? "",
    };
    return (Object.keys(expect) as (keyof typeof found)[])
      .filter((name) => expect[name] !== found[name])
      .map(
        (name) =>
          `POLICY.cases[${i}] (${asks.namespace}/${asks.account}): ${name} is ${JSON.stringify(found[name])}, not ${JSON.stringify(expect[name])}`,
      );
  });
  if (faults.length > 0) throw new OperatorError(faults.join("\n"));
  terminal.print(`Cases that hold: ${cases.length}.`);
}

interface ExplainOptions {
  readonly config?: string;
  readonly keyType?: string;
  readonly audience?: readonly string[];
  readonly env?: string;
  readonly caller?: string;
}

/** `rampart policy explain`: which rule decides about a request, and what the answer would be. */
export function addExplain(command: Command, terminal: Terminal): void {
  command
    .description("say which rule decides about a request, and what the answer would be")
    .option("-c, --config <file>", "the CA's configuration")
    .option("-e, --env <name>", "an environment of wrangler.toml")
    .requiredOption("--namespace <name>", "of the identity that is issued")
    .requiredOption("--account <name>", "of the identity that is issued")
    .option("--cluster <name>", "the cluster of the token")
    .option("--issuer <url>", "the issuer of the token")
    .option("--caller <namespace/account>", "who asks, if somebody else does")
    .option("--node <name>", "the node of the pod")
    .option("--proof <kind>", "token, certificate or forwarded")
    .option("--signer <name>", "the named signer that is asked for")
    .option("--product <kind>", "workload, serving, intermediate or token")
    .option("--audience <name...>", "of the token that is asked for")
    .option("--requested <duration>", "the life that is asked for")
    .option("--key-type <type>", "such as EC-P256 or RSA")
    .action((options: ExplainOptions) => explain(terminal, options));
}

async function explain(terminal: Terminal, options: ExplainOptions): Promise<void> {
  const { config, env, caller, keyType, audience: audiences, ...rest } = options;
  const rules = await readRules(terminal, configOf({ ...(config && { config }) }), env);
  const [namespace, account] = caller?.split("/") ?? [];
  const asks = questionOf({
    ...rest,
    ...(audiences && { audiences }),
    ...(caller !== undefined && { caller: { namespace, account } }),
    ...(keyType !== undefined && { key_type: keyType }),
  });
  const { live, shadow } = ruled(rules, circumstancesOf(asks, rules.configuration));
  terminal.print(
    [
      live.rule
        ? `The rule ${live.rule.name} decides, because it is for ${JSON.stringify(live.rule.when)}.`
        : "No rule fits. The other keys of the configuration hold.",
      ...linesOf(live.outcome),
      ...(shadow ? [`In shadow, the rule ${shadow.rule?.name} would decide:`] : []),
      ...(shadow ? linesOf(shadow.outcome) : []),
    ].join("\n"),
  );
}

function questionOf(values: Readonly<Record<string, unknown>>): Question {
  try {
    return parseForm(question, values);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    throw usageError(error.faults.map((fault) => `--${fault.replace("_", "-")}`).join("\n"));
  }
}

function linesOf({ denied, lifeSeconds, signer }: Outcome): readonly string[] {
  if (denied !== undefined) return [`  refused: ${denied}`];
  return [`  life: ${lifeSeconds} s`, ...(signer ? [`  signer: ${signer}`] : [])];
}
