import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { Command } from "commander";
import * as z from "zod/mini";
import { Circumstances } from "../../../ca/policy/circumstances.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { jsonIn } from "../../../foundation/json-members.ts";
import { exitCodes, typedInstant } from "../../terminal/command-line.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { printable } from "../../terminal/text.ts";
import { type FollowerOptions, openFollower, synchronize } from "../log/follower.ts";
import { addLogOptions } from "../log/log.ts";
import { addLogExitCodes, judgingLog } from "../log/log-source.ts";
import { addMissingRequests, type PastRequest, requestsSince } from "../log/logged-requests.ts";
import { addExplain, testRules } from "./cases.ts";
import { changing, type ReplayReport, readRules, replay } from "./replayed.ts";

interface ReplayOptions extends FollowerOptions {
  readonly env?: string;
  readonly since?: string;
  readonly audit?: string;
}

/** `rampart policy …`: replays, explains and tests the rules over who may get what. */
export function policyCommand(terminal: Terminal): Command {
  const policy = new Command("policy").description("rules over who may get what");
  const replaying = addLogExitCodes(policy.command("replay"), {
    attention: "The configuration would have changed something.",
  });
  addLogOptions(replaying)
    .argument("<config>", "the new configuration, rampart.toml or wrangler.toml")
    .description("say what the rules of a configuration would have done with past requests")
    .option("-e, --env <name>", "an environment of wrangler.toml")
    .option(
      "--since <time>",
      "from this instant on, or this long ago",
      typedInstant(terminal.clock),
    )
    .option("--audit <file>", "lines of the audit trail, for what rules have refused")
    .option("--json", "print JSON")
    .action((config: string, options: ReplayOptions) =>
      judgingLog(() => replayLog(terminal, config, options)),
    );
  addExplain(policy.command("explain"), terminal);
  policy
    .command("test")
    .argument("<config>", "the configuration, rampart.toml or wrangler.toml")
    .description("hold the rules of a configuration to the cases in it")
    .option("-e, --env <name>", "an environment of wrangler.toml")
    .action((config: string, { env }: { env?: string }) => testRules(terminal, config, env));
  return policy;
}

async function replayLog(
  terminal: Terminal,
  config: string,
  options: ReplayOptions,
): Promise<void> {
  const rules = await readRules(terminal, config, options.env);
  using follower = await openFollower(terminal, options);
  await synchronize(follower);
  const { index } = follower;
  const { since = "", audit } = options;
  const report = await terminal.progress(
    "replaying the log",
    async () => {
      await addMissingRequests(index);
      const refusals = audit === undefined ? [] : await refusalsIn(audit, since);
      const instants = rules.policy.rules.flatMap((rule) => rule.since ?? []);
      return replay(rules, requestsSince(index, since, instants), refusals);
    },
    options,
  );
  terminal.answer(report, options, () => formatReport(terminal, report));
  if (report.changes > 0) terminal.exitWith(exitCodes.attention);
}

function formatReport(terminal: Terminal, report: ReplayReport): string {
  const headings = ["RULE", "REQUESTS", ...changing.map((each) => each.toUpperCase()), "UNKNOWN"];
  const rows = report.rules.map(({ rule, isShadow, requests, effects, workloads }) => [
    rule === "" ? "(no rule)" : `${rule}${isShadow ? " (shadow)" : ""}`,
    ...[requests, ...changing.map((each) => effects[each]), effects.unknown].map(String),
    String(workloads.length),
  ]);
  const examples = report.rules.flatMap(({ rule, examples: some }) =>
    some.map((each) => printable(`  ${rule === "" ? "(no rule)" : rule}: ${each}`)),
  );
  return [
    formatTable(terminal, [...headings, "WORKLOADS"], rows),
    ...(examples.length > 0 ? ["", "The first of them:", ...examples] : []),
    ...(report.unused.length > 0 ? ["", `Never used: ${report.unused.join(", ")}`] : []),
    "",
    report.changes > 0
      ? `It would have changed ${report.changes} of ${report.requests} requests.`
      : `It would have changed none of ${report.requests} requests.`,
  ].join("\n");
}

/** A line of the audit trail about a call that a rule refused, which no log has. */
const refusal = z.object({
  reason: z.enum(["policy-denied", "audience-denied"]),
  time: z.iso.datetime({ offset: true }),
  detail: z.string(),
  asked: Circumstances.schema,
});

/**
 * Reads the refusals by rules in an audit trail; other lines are skipped.
 * @param since ISO 8601; empty for all.
 * @throws OperatorError if the file cannot be read.
 */
export async function refusalsIn(file: string, since: string): Promise<readonly PastRequest[]> {
  const found: PastRequest[] = [];
  let number = 0;
  try {
    for await (const line of createInterface({ input: createReadStream(file) })) {
      number++;
      const parsed = line.includes('-denied"') ? refusal.safeParse(refusedIn(line)) : undefined;
      if (!parsed?.success || new Date(parsed.data.time) < new Date(since)) continue;
      const { asked, detail } = parsed.data;
      const made = { denied: detail, lifeSeconds: undefined, signer: asked.signer };
      found.push({ circumstances: asked, made, count: 1, place: `line ${number}` });
    }
  } catch (error) {
    throw new OperatorError(`${file} cannot be read`, { cause: error });
  }
  return found;
}

/** Parses the JSON in a line. Words before it, such as journald's, are skipped. */
const refusedIn = (line: string): unknown => jsonIn(line.slice(line.indexOf("{")));
