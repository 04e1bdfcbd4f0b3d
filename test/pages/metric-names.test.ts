import { join } from "node:path";
import { type Metric, Registry } from "prom-client";
import { expect, test, vi } from "vitest";
import { expositions } from "../testkit/observability/expositions.ts";

const head = `# Names of metrics

The metrics of every program, as each says of itself. \`npx vitest -u --project node test/pages/metric-names.test.ts\` writes this page. [Metrics](metrics.md) says where they are, and what to do with them.

| name | type | labels | programs | meaning |
| --- | --- | --- | --- | --- |
`;

/** The labels of every metric that a registry gets meanwhile, by its name. */
function labelsSeen(): ReadonlyMap<string, readonly string[]> {
  const labels = new Map<string, readonly string[]>();
  const register = Registry.prototype.registerMetric;
  vi.spyOn(Registry.prototype, "registerMetric").mockImplementation(function (
    this: Registry,
    metric: Metric & { readonly name?: string; readonly labelNames?: readonly string[] },
  ) {
    labels.set(metric.name ?? "", metric.labelNames ?? []);
    register.call(this, metric);
  });
  return labels;
}

test("docs/reference/metric-names.md has what the programs say of their metrics", async () => {
  const labels = labelsSeen();
  const rows = new Map<string, { readonly row: readonly string[]; readonly programs: string[] }>();
  for (const [program, metrics] of await expositions()) {
    for (const { name, type, help } of metrics) {
      const quoted = (labels.get(name) ?? []).map((label) => `\`${label}\``).join(", ");
      const known = rows.get(name);
      if (known) known.programs.push(program);
      else rows.set(name, { row: [`\`${name}\``, type, quoted, help], programs: [program] });
    }
  }
  const lines = [...rows.values()].map(({ row: [name, type, quoted, help], programs }) =>
    ["", name, type, quoted, programs.join(", "), help, ""].join(" | ").trim(),
  );
  const page = join(import.meta.dirname, "../../docs/reference/metric-names.md");
  await expect(`${head}${lines.join("\n")}\n`).toMatchFileSnapshot(page);
});
