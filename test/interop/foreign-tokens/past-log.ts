import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import { sourceProgram } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import type { Outcome } from "../outcomes.ts";
import type { Domains } from "./domains.ts";
import { startServing } from "./platforms.ts";
import { gotten, identityAt } from "./plays.ts";

const reader = "a-token-of-a-reader-of-the-issuance-log";
const environment = { RAMPART_LOG_TOKEN: reader };

/** A log of some tokens, which an operator searches, and over which narrower rules are replayed. */
export async function playLog(parent: string, domains: Domains, csr: string): Promise<Outcome> {
  const folder = join(parent, "log");
  await mkdir(folder);
  const ISSUERS = await domains.tables("serve");
  const serving = await startServing(
    folder,
    {
      ISSUERS,
      LOG_ORIGIN: "log.example.com/foreign",
      LOG_INCEPTION_DATE: new Date().toISOString().slice(0, 10),
      LOG_INTERVAL: "1s",
    },
    { LOG_READERS: reader },
  );
  const faults: string[] = [];
  let passed = 0;
  const expect = (what: string, found: unknown, due: unknown): void => {
    if (JSON.stringify(found) === JSON.stringify(due)) passed++;
    else faults.push(`${what}: ${JSON.stringify(found)} in place of ${JSON.stringify(due)}`);
  };
  const ask = async (token: string): Promise<string> => gotten(await serving.ask({ csr, token }));
  try {
    for (const ref of ["main", "next"]) {
      const job_workflow_ref = `octo-org/app/.github/workflows/a.yml@refs/heads/${ref}`;
      expect(
        "a job",
        await ask(await domains.mint("github", { job_workflow_ref })),
        identityAt("github"),
      );
    }
    const groups_direct = ["my-group", "other-group"];
    expect(
      "a project",
      await ask(await domains.mint("gitlab", { groups_direct })),
      identityAt("gitlab"),
    );
    const once = await domains.mint("aws");
    expect("a role", await ask(once), identityAt("aws"));
    expect("a used token", await ask(once), "Unauthenticated");
    const found = async (...words: readonly string[]): Promise<number> => {
      const asked = ["log", "search", "--url", `${serving.published}/log/0`, "--json", ...words];
      const { stdout } = await run(process.execPath, [sourceProgram, ...asked], { environment });
      return stdout.split("\n").filter(Boolean).length;
    };
    await until("the log is not published", async () => (await found("--namespace", "at-*")) === 4);
    const claim = "'https://sts.amazonaws.com/'.aws_account=111122223333";
    expect("by AWS's claim", await found("--claim", claim), 1);
    expect("by one of a list", await found("--claim", "groups_direct=other-*"), 1);
    expect("by a workflow", await found("--claim", "job_workflow_ref=octo-org/app/*"), 2);
    expect("by another", await found("--claim", "groups_direct=none"), 0);
    const rules = [
      {
        name: "main-alone",
        when: { claims: { job_workflow_ref: "*@refs/heads/next" } },
        then: { deny: "only main" },
      },
      { name: "groups", when: { claims: { groups_direct: "other-group" } }, then: { deny: "no" } },
      {
        name: "aws",
        when: { claims: { [claim.split("=")[0] ?? ""]: "1111*" } },
        then: { deny: "no" },
      },
    ];
    const narrower = join(folder, "narrower.toml");
    await writeFile(narrower, stringify({ ISSUERS, POLICY: { rules } }));
    const words = ["policy", "replay", narrower, "--url", `${serving.published}/log/0`, "--json"];
    const { stdout } = await run(process.execPath, [sourceProgram, ...words], { environment });
    const replayed = JSON.parse(stdout) as { changes: number; requests: number };
    expect("a replay of narrower rules", [replayed.changes, replayed.requests], [3, 4]);
    const token = join(folder, "token");
    await writeFile(token, await domains.mint("gitlab", { groups_direct }));
    const explained = ["policy", "explain", "-c", narrower, "--token", token];
    const said = await runWell(process.execPath, [sourceProgram, ...explained]);
    expect("an explanation", /The rule groups decides/.test(said), true);
  } finally {
    await serving.end();
  }
  return { client: "an operator over a past log", server: "rampart serve", passed, faults };
}
