import { type Command, Option } from "commander";
import type { Circumstances } from "../../../ca/policy/circumstances.ts";
import { type Decisions, type Outcome, Policy } from "../../../ca/policy/policy.ts";
import { type PolicyTable, Question } from "../../../ca/policy/rule.ts";
import type { Configuration } from "../../../config/configuration.ts";
import { ConfigurationForm } from "../../../config/form.ts";
import { ConfigurationError, OperatorError } from "../../../foundation/errors.ts";
import { nameAllowList } from "../../../foundation/globs.ts";
import { configOf } from "../../session/deployment.ts";
import { usageError } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { explainToken } from "./explained-token.ts";
import { type ReadRules, readRules, ruled } from "./replayed.ts";

/**
 * Lists the attributes that the CA would see in a described request, once for each issuer that may have authenticated
 * its caller.
 */
function circumstancesOf(
  asks: Question,
  { issuers, signers }: Configuration,
): readonly Circumstances[] {
  const { namespace, account, caller = { namespace, account }, product } = asks;
  const isNodeHidden = asks.proof !== "token";
  const tables = issuers.filter(
    (each) =>
      (asks.issuer ?? each.issuer) === each.issuer &&
      (asks.cluster ?? each.cluster) === each.cluster &&
      nameAllowList(each.namespaces)(namespace),
  );
  if (asks.signer !== undefined && !signers.some(({ name }) => name === asks.signer)) return [];
  return tables.map(({ cluster, issuer, subjects }) => ({
    ...asks,
    cluster,
    issuer,
    caller,
    node: isNodeHidden ? undefined : asks.node,
    claims: subjects && asks.proof === "token" ? asks.claims : undefined,
    ...Policy.hidden({
      issuer: false,
      account: false,
      node: isNodeHidden,
      claims: subjects !== undefined && asks.proof !== "token",
    }),
    signer: product === "workload" ? asks.signer : undefined,
    key_type: product === "token" ? undefined : asks.key_type,
  }));
}

const nobody = "nobody can ask so: ISSUERS or SIGNERS has no such table";

/**
 * Tests the rules of a configuration by the cases in it.
 * @throws OperatorError with one line for each that fails, and without cases.
 */
export async function testRules(
  terminal: Terminal,
  config: string,
  env: string | undefined,
): Promise<void> {
  const rules = await readRules(terminal, config, env);
  const cases = rules.configuration.policy?.cases ?? [];
  if (cases.length === 0) throw new OperatorError(`${config}: POLICY has no cases`);
  const faults = cases.flatMap((each, i) =>
    faultsOf(each, rules).map((fault) => `POLICY.cases[${i}] ${fault}`),
  );
  if (faults.length > 0) throw new OperatorError(faults.join("\n"));
  terminal.print(`Cases that hold: ${cases.length}.`);
}

function faultsOf(
  { asks, expect }: PolicyTable["cases"][number],
  rules: ReadRules,
): readonly string[] {
  const workload = `${asks.namespace}/${asks.account}`;
  const all = circumstancesOf(asks, rules.configuration);
  if (all.length === 0) return [`(${workload}): ${nobody}`];
  return all.flatMap((known) => {
    const { rule, outcome } = ruled(rules, known).live;
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
          `(${known.cluster}: ${workload}): ${name} is ${JSON.stringify(found[name])}, not ${JSON.stringify(expect[name])}`,
      );
  });
}

interface ExplainOptions {
  readonly config?: string;
  readonly keyType?: string;
  readonly audience?: readonly string[];
  readonly env?: string;
  readonly caller?: string;
  readonly token?: string;
}

/** The options that a token replaces. */
const saidByToken = ["namespace", "account", "cluster", "issuer", "caller", "node", "proof"];

/** Adds `policy explain`: which rule decides about a request, and what the answer would be. */
export function addExplain(command: Command, terminal: Terminal): void {
  command
    .description("say which rule decides about a request, and what the answer would be")
    .option("-c, --config <file>", "the CA's configuration")
    .option("-e, --env <name>", "an environment of wrangler.toml")
    .addOption(
      new Option(
        "--token <file>",
        "a token of an issuer with subjects: which entry fits it, and why; it is sent nowhere",
      ).conflicts(saidByToken),
    )
    .option("--namespace <name>", "of the identity that is issued, unless a token says it")
    .option("--account <name>", "of the identity that is issued, unless a token says it")
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
  const { config, env, caller, keyType, audience: audiences, token, ...rest } = options;
  terminal.nameCa(options);
  const rules = await readRules(terminal, configOf({ ...(config && { config }) }), env);
  const [namespace, account] = caller?.split("/") ?? [];
  const bearer = token === undefined ? {} : await explainToken(terminal, token, rules);
  if (!bearer) return;
  const { claims, ...named } = bearer;
  const described = questionOf({
    ...rest,
    ...named,
    ...(audiences && { audiences }),
    ...(caller !== undefined && { caller: { namespace, account } }),
    ...(keyType !== undefined && { key_type: keyType }),
  });
  // A claim of a token may be empty, which the schema of typed options refuses.
  const asks = claims ? { ...described, claims } : described;
  const all = circumstancesOf(asks, rules.configuration);
  if (all.length === 0) throw new OperatorError(nobody);
  const answers = all.map((known) => explained(ruled(rules, known)));
  const areAlike = new Set(answers).size === 1;
  terminal.print(
    areAlike
      ? String(answers[0])
      : answers.map((each, i) => `${all[i]?.cluster}: ${each}`).join("\n"),
  );
}

function explained({ live, shadow }: Decisions): string {
  return [
    live.rule
      ? `The rule ${live.rule.name} decides, because it is for ${JSON.stringify(live.rule.when)}.`
      : "No rule fits. The other keys of the configuration hold.",
    ...linesOf(live.outcome),
    ...(shadow ? [`In shadow, the rule ${shadow.rule?.name} would decide:`] : []),
    ...(shadow ? linesOf(shadow.outcome) : []),
  ].join("\n");
}

function questionOf(values: Readonly<Record<string, unknown>>): Question {
  try {
    return ConfigurationForm.parse(Question.schema, values);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    throw usageError(error.faults.map((fault) => `--${fault.replace("_", "-")}`).join("\n"));
  }
}

function linesOf({ denied, lifeSeconds, signer, dnsNames }: Outcome): readonly string[] {
  if (denied !== undefined) return [`  refused: ${denied}`];
  return [
    `  life: ${lifeSeconds} s`,
    ...(signer ? [`  signer: ${signer}`] : []),
    ...(dnsNames ? [`  DNS names: ${dnsNames.join(", ")}`] : []),
  ];
}
