import { Argument, Command, Option } from "commander";
import { OperatorError } from "../../../foundation/errors.ts";
import { usageError } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import {
  type EnrolmentSettings,
  formatEnrolment,
  platforms,
  requireServable,
} from "../cluster/cluster-enrol.ts";
import {
  type Answers,
  commonQuestions,
  type Question,
  type Recipe,
  recipes,
  tableOf,
} from "./recipes.ts";

type EnrolOptions = Answers & { readonly for: EnrolmentSettings["platform"] };

/** `rampart issuer …`: prints tables for the issuers of callers outside Kubernetes. */
export function issuerCommand(terminal: Terminal): Command {
  const issuer = new Command("issuer").description(
    "the issuers of CI jobs, functions, machines and other trust domains",
  );
  const names = Object.keys(recipes);
  const enrol = issuer
    .command("enrol")
    .addArgument(new Argument("<platform>", "the platform of the caller").choices(names))
    .description("print the table of ISSUERS for a caller; what no option says is asked");
  const all = Object.values(recipes).flatMap(({ questions }) => questions);
  for (const [key, { flags, text }] of new Map(all.map((each) => [each.key, each]))) {
    const askedBy = names.filter((name) => recipes[name]?.questions.some((q) => q.key === key));
    enrol.option(flags, `${askedBy.join(", ")}: ${text}`);
  }
  for (const { flags, text } of commonQuestions) enrol.option(flags, text);
  enrol
    .option("--name <cluster>", "the clusterid of the caller (default: the platform)")
    .addOption(
      new Option("--for <platform>", "the platform whose configuration gets the table")
        .choices(platforms)
        .default("worker"),
    )
    .action((platform: string, options: EnrolOptions) => enrolIssuer(terminal, platform, options));
  return issuer;
}

async function enrolIssuer(
  terminal: Terminal,
  platform: string,
  { for: target, name = platform, ...typed }: EnrolOptions,
): Promise<void> {
  const recipe = recipes[platform] as Recipe;
  const questions = [...recipe.questions, ...commonQuestions];
  const foreign = Object.keys(typed).find((key) => !questions.some((each) => each.key === key));
  if (foreign !== undefined) throw usageError(`${platform} is asked for no ${foreign}`);
  const answers = await answersTo(questions, typed, terminal);
  const table = tableOf(recipe, answers, name, target === "serve");
  requireServable(table);
  terminal.print(formatEnrolment({ table, reasons: [recipe.advice] }, target));
}

/**
 * Collects the answers to all questions, from options or else from the operator.
 * @throws OperatorError for a missing or malformed answer.
 */
async function answersTo(
  questions: readonly Question[],
  typed: Answers,
  terminal: Terminal,
): Promise<Answers> {
  const answers: Record<string, string | undefined> = { ...typed };
  const missing: string[] = [];
  for (const question of questions) {
    const { key, flags, text, form, isNeeded } = question;
    if (answers[key] === undefined && terminal.isAttended && isAsked(question, answers)) {
      const line = await terminal.ask(`${text}: `);
      if (line === undefined) throw new OperatorError("the questions were not answered");
      answers[key] = line.trim() || undefined;
    }
    const answer = answers[key];
    if (answer === undefined && isNeeded(answers)) missing.push(`${flags}  ${text}`);
    if (answer !== undefined && !form.test(answer)) throw usageError(`${flags} is not ${text}`);
  }
  if (missing.length === 0) return answers;
  throw usageError(["these are missing:", ...missing].join("\n  "));
}

/** Whether a question is asked. `--issuer` with a default, and `--ref` beside an environment, are options only. */
const isAsked = ({ key, isNeeded }: Question, answers: Answers): boolean =>
  isNeeded(answers) || (key !== "issuer" && key !== "ref");
