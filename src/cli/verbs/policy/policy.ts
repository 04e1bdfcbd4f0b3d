import { Command, InvalidArgumentError } from "commander";
import { durationSeconds, instant } from "../../../foundation/text.ts";
import { addSeconds } from "../../../pki/x509/validity.ts";
import { exitCodes } from "../../terminal/command-line.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { printable } from "../../terminal/text.ts";
import { type FollowerOptions, openFollower, synchronize } from "../log/follower.ts";
import { addLogOptions } from "../log/log.ts";
import { addLogExitCodes, judgingLog } from "../log/log-source.ts";
import { addMissingRequests, requestsSince } from "../log/logged-requests.ts";
import { refusalsIn } from "./audit-lines.ts";
import { addExplain, testRules } from "./cases.ts";
import { readRules } from "./read-rules.ts";
import { changing, type ReplayReport, replay } from "./replayed.ts";

interface ReplayOptions extends FollowerOptions {
  readonly env?: string;
  readonly since?: string;
  readonly audit?: string;
}

/** `rampart policy …`: who may get what. */
export function policyCommand(terminal: Terminal): Command {
  const policy = new Command("policy").description("rules over who may get what");
  const replaying = addLogExitCodes(policy.command("replay"), {
    attention: "The configuration would have changed something.",
  });
  addLogOptions(replaying)
    .argument("<config>", "the new configuration, rampart.toml or wrangler.toml")
    .description("say what the rules of a configuration would have done with past requests")
    .option("-e, --env <name>", "an environment of wrangler.toml")
    .option("--since <time>", "from this instant on, or this long ago", instantOf(terminal))
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

/** An instant in RFC 3339, or a duration before now, in days as well. */
const instantOf =
  ({ clock }: Terminal) =>
  (text: string): string => {
    const [, days] = /^(\d{1,5})d$/.exec(text) ?? [];
    const ago = durationSeconds.safeParse(days === undefined ? text : `${Number(days) * 24}h`);
    const time = ago.success ? addSeconds(clock(), -ago.data) : instant.safeParse(text).data;
    if (time) return time.toISOString();
    throw new InvalidArgumentError("must be an instant such as 2026-11-22T12:00:00Z, 30d or 24h");
  };

async function replayLog(
  terminal: Terminal,
  config: string,
  options: ReplayOptions,
): Promise<void> {
  const rules = await readRules(terminal, config, options.env);
  using follower = await openFollower(terminal, options);
  await synchronize(follower);
  const { index } = follower;
  const { since = "", audit, json } = options;
  const report = await terminal.progress(
    "replaying the log",
    async () => {
      await addMissingRequests(index);
      const refusals = audit === undefined ? [] : await refusalsIn(audit, since);
      const instants = rules.policy.rules.flatMap((rule) => rule.since ?? []);
      return replay(rules, requestsSince(index, since, instants), refusals);
    },
    { json },
  );
  if (json) terminal.printJson(report);
  else terminal.print(formatReport(terminal, report));
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
