import { expect, test } from "vitest";
import { Configuration } from "../../src/config/configuration.ts";
import { DistributeConfiguration } from "../../src/node/distribute/distribute.ts";
import { GatewayConfiguration } from "../../src/node/gateway/gateway-configuration.ts";
import {
  limitNames,
  limitsTable,
  monitoringLimits,
  usualLimits,
} from "../../src/node/limits/limits.ts";
import { ServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import { SignerConfiguration } from "../../src/node/signer/signer-configuration.ts";
import { cellsOf, read } from "./page-files.ts";

const page = read("docs/reference/configuration.md").replaceAll("`", "");
const limitsPage = read("docs/reference/limits.md").replaceAll("`", "");

/** The rows of the first table of keys after a heading or sentence. */
function tableAfter(text: string): string[][] {
  const [, table = ""] =
    /^\| key \|.*\n.*\n((?:\|.*\n)+)/m.exec(page.slice(page.indexOf(text))) ?? [];
  return table.trimEnd().split("\n").map(cellsOf);
}

const chartSchema = JSON.parse(read("deploy/helm/rampart/values.schema.json"));

const rows = tableAfter("## The CA");
const issuerRows = tableAfter("### Each table of ISSUERS");
const defaultOf = (key: string): string => rows.find(([name]) => name === key)?.[2] ?? "";

const required = { ISSUERS: [{ issuer: "https://a.test" }], KEK: `k1:${"A".repeat(43)}=` };
const written = (keys: readonly string[]): Record<string, string> =>
  Object.fromEntries(keys.map((key) => [key, defaultOf(key)]));

test("the page names every key of the configuration, in the order of the schema", () => {
  expect(rows.map(([key]) => key)).toEqual(Configuration.keys);
});

test("the defaults on the page are the schema's", () => {
  const keys = Configuration.keys.filter(
    (key) => /^[\w.-]+$/.test(defaultOf(key)) && !/^(required|none)$/.test(defaultOf(key)),
  );
  expect(keys).toContain("PROPAGATION_INTERVAL");
  const { keks: _, ...withDefaults } = Configuration.parse(required);
  const { keks: __, ...withPage } = Configuration.parse({ ...required, ...written(keys) });
  expect(JSON.stringify(withPage)).toBe(JSON.stringify(withDefaults));
});

test("the keys that the page calls required are, and the others are not", () => {
  const called = rows.filter(([, , value]) => value === "required").map(([key]) => key);
  expect(called).toEqual(Object.keys(required));
  for (const key of called) {
    const { [key as "KEK"]: _, ...rest } = required;
    expect(() => Configuration.parse(rest)).toThrow(`${key}: is required`);
  }
});

test("the page and the chart name every key of an issuer's table", () => {
  const named = issuerRows.flatMap(([keys = ""]) => keys.split(" or "));
  const table = {
    issuer: "https://a.test",
    audiences: ["istio-ca"],
    cluster: "Kubernetes",
    cluster_aliases: [],
    jwks_uri: "https://a.test/jwks",
    namespaces: ["*"],
    trusted_node_accounts: [],
    node_checks: "claims",
    node_reach: [{ nodes: ["*"], namespaces: ["*"] }],
    gateways: [],
    cluster_signers: [],
    renewal_limit: "24h",
    jwt_audiences: ["sts.amazonaws.com"],
    intermediates: [{ account: "a/b", trust_domain: "a.test" }],
    kubernetes: { server: "https://a.test", credential: "CLUSTER_CREDENTIAL_A" },
  };
  const subject = {
    ...{ name: "a", claims: { b: "c" }, namespace: "d", account: "e" },
    ...{ once: true, maximum_age: "10m" },
  };
  const claiming = {
    issuer: "https://b.test",
    audiences: ["https://ca.test"],
    subjects: [subject],
    recorded_claims: ["b"],
  };
  expect(tableAfter("### Each table of subjects").map(([key]) => key)).toEqual(
    Object.keys(subject),
  );
  const keys = new Set([...Object.keys(table), ...Object.keys(claiming), "jwks"]);
  expect(named.toSorted()).toEqual([...keys].toSorted());
  const { items } = chartSchema.properties.issuers;
  expect(Object.keys(items.properties).toSorted()).toEqual(named.toSorted());
  expect(() =>
    Configuration.parse({ ...required, JWT_ISSUER: "https://ca.test", ISSUERS: [table, claiming] }),
  ).not.toThrow();
});

test.each([
  ["serve", ServeConfiguration.keys],
  ["gateway", GatewayConfiguration.keys],
  ["distribute", DistributeConfiguration.keys],
  ["signer", SignerConfiguration.keys],
])("the page names every key of rampart %s, in the order of the schema", (program, keys) => {
  expect(tableAfter(`## rampart ${program}\n`).map(([key]) => key)).toEqual(keys);
});

test("docs/reference/limits.md names every member of LIMITS, in the order of the schema, with its default", () => {
  const [, table = ""] = /^\| member of LIMITS \|.*\n.*\n((?:\|.*\n)+)/m.exec(limitsPage) ?? [];
  const cells = table.trimEnd().split("\n").map(cellsOf);
  expect(cells.map(([name]) => name)).toEqual(limitNames);
  const written = cells
    .filter(([name]) => name !== "memory")
    .map(([name = "", , usual = ""]) => [name, /^\d+$/.test(usual) ? Number(usual) : usual]);
  expect(limitsTable.parse(Object.fromEntries(written))).toEqual(usualLimits);
});

test("docs/reference/limits.md says what the monitoring port has of its own", () => {
  const form =
    /(\d+) connections, (\d+) requests, (\d+) MiB of octets, and otherwise the defaults below; of memory, only V8's heap applies\./;
  const [, connections, streams, request_memory] = (form.exec(limitsPage) ?? []).map(Number);
  const own = { connections, streams, request_memory, memory: Number.POSITIVE_INFINITY };
  expect(monitoringLimits).toEqual({ ...usualLimits, ...own });
});
