import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { scrapeAll, startScraped } from "../../testkit/observability/expositions.ts";
import { run, startChild } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";

/** Names that are Istio's or those of the library for Node, which break promtool's customs. */
const foreignMetric = /^(?:citadel_server|istio_agent|nodejs)_/;

/** What promtool says of the metrics of each program; none where it has nothing against a name of Rampart. */
export async function metricFaults(promtool: string): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const [program, input] of await scrapeAll()) {
    const { stdout, stderr } = await run(promtool, ["check", "metrics"], { input });
    const lines = `${stdout}\n${stderr}`.split("\n").filter((line) => line.trim() !== "");
    const own = lines.filter((line) => !foreignMetric.test(line));
    faults.push(...own.map((line) => `${program}: ${line}`));
  }
  const { exitCode } = await run(promtool, ["check", "metrics"], { input: "rampart_ready one\n" });
  return exitCode === 0 ? [...faults, "promtool accepts a text that is no exposition"] : faults;
}

interface EvaluatedRule {
  readonly name: string;
  readonly health: "ok" | "err" | "unknown";
  readonly lastError?: string;
}

/**
 * Has a Prometheus scrape every program, evaluate every rule, and answer every panel of the dashboard.
 *
 * @returns Why that failed, one sentence each.
 */
export async function prometheusFaults(
  prometheus: string,
  rulesFolder: string,
  folder: string,
): Promise<readonly string[]> {
  await using ending = new AsyncDisposableStack();
  const { ports, agent, end } = await startScraped();
  ending.defer(end);
  const agentServer = createServer((_, response) => {
    response.setHeader("content-type", "text/plain; version=0.0.4").end(agent);
  });
  const { host, close } = await listenOnLoopback(agentServer);
  ending.defer(close);
  const scraped = new Map([...ports, ["agent", Number(host.split(":").at(-1))]]);
  const [port = 0] = await freePorts(1);
  await writeFile(join(folder, "prometheus.yaml"), stringify(configurationFor(scraped)));
  await writeFile(join(folder, "quick.yaml"), await quickRules(rulesFolder));
  const child = startChild(prometheus, [
    `--config.file=${join(folder, "prometheus.yaml")}`,
    `--storage.tsdb.path=${join(folder, "series")}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]);
  ending.defer(async () => void (await child.end()));
  const ask = askerOf(`http://127.0.0.1:${port}`);
  const rules = await evaluatedRules(ask);
  return [
    ...rules
      .filter(({ health }) => health !== "ok")
      .map(({ name, lastError }) => `the rule ${name} cannot be evaluated: ${lastError}`),
    ...(await unscraped(ask, [...scraped.keys()])),
    ...(await panelFaults(ask, rulesFolder)),
  ];
}

const configurationFor = (ports: ReadonlyMap<string, number>): object => ({
  global: { scrape_interval: "1s", evaluation_interval: "1s" },
  rule_files: ["quick.yaml"],
  scrape_configs: [...ports].map(([program, port]) => ({
    job_name: program,
    static_configs: [{ targets: [`127.0.0.1:${port}`], labels: { namespace: "mesh" } }],
  })),
});

/** The rules as they are, evaluated each second. */
async function quickRules(rulesFolder: string): Promise<string> {
  const { groups } = parse(await readFile(join(rulesFolder, "rules.yaml"), "utf8"));
  return stringify({ groups: groups.map((group: object) => ({ ...group, interval: "1s" })) });
}

type Ask = (path: string) => Promise<{ status: string; error?: string; data?: unknown }>;

const askerOf =
  (origin: string): Ask =>
  async (path) =>
    (await fetch(`${origin}/api/v1/${path}`)).json() as ReturnType<Ask>;

/** Every rule, once each was evaluated. */
async function evaluatedRules(ask: Ask): Promise<readonly EvaluatedRule[]> {
  let rules: readonly EvaluatedRule[] = [];
  const isEvaluated = async (): Promise<boolean> => {
    const answer = await ask("rules").catch(() => undefined);
    const { groups = [] } = (answer?.data ?? {}) as { groups?: { rules: EvaluatedRule[] }[] };
    rules = groups.flatMap((group) => group.rules);
    return rules.length > 0 && rules.every(({ health }) => health !== "unknown");
  };
  await until("Prometheus has evaluated every rule", isEvaluated, 120);
  return rules;
}

async function unscraped(ask: Ask, programs: readonly string[]): Promise<string[]> {
  const missing = async (): Promise<string[]> => {
    const { data } = await ask(`query?query=${encodeURIComponent("up == 1")}`);
    const { result } = data as { result: { metric: { job: string } }[] };
    const up = new Set(result.map(({ metric }) => metric.job));
    return programs.filter((each) => !up.has(each)).map((each) => `${each} was not scraped`);
  };
  await until("every program is scraped", async () => (await missing()).length === 0).catch(
    () => {},
  );
  return missing();
}

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

/** The panels whose expression Prometheus refuses, with the dashboard's variables as Grafana fills them in. */
async function panelFaults(ask: Ask, rulesFolder: string): Promise<string[]> {
  const { panels } = JSON.parse(await readFile(join(rulesFolder, "dashboard.json"), "utf8"));
  const faults: string[] = [];
  for (const { title, targets = [] } of panels as Panel[]) {
    for (const { expr } of targets) {
      const filled = expr
        .replaceAll("$__rate_interval", "1m")
        .replaceAll(/\$(?:job|namespace)/g, ".*");
      const { status, error } = await ask(`query?query=${encodeURIComponent(filled)}`);
      if (status !== "success") faults.push(`the panel "${title}": ${error}`);
    }
  }
  return faults;
}
