import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { clusterCommand } from "../../../../src/cli/verbs/cluster/cluster.ts";
import { formatIssuers, inspectIssuers } from "../../../../src/cli/verbs/cluster/cluster-check.ts";
import { createTokenKey, jwksOf } from "../../../testkit/callers/tokens.ts";
import { configurationOf, randomKek } from "../../../testkit/configuration.ts";
import { startLoopbackServer } from "../../../testkit/network/loopback-server.ts";
import { MemoryTerminal, plainScreen } from "../../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const key = await createTokenKey("RS256", "k1");
const clock = () => new Date("2026-11-21T12:00:00Z");

describe("an issuer is reported", () => {
  test("with its keys, its clock and its reach", async () => {
    const server = await startLoopbackServer((_, response) => {
      response.setHeader("date", "Sat, 21 Nov 2026 12:02:00 GMT");
      response.end(JSON.stringify(jwksOf(key)));
    });
    const table = {
      issuer: "https://a.test",
      cluster: "a",
      jwks_uri: `${server.origin}/jwks`,
      namespaces: ["shop-*"],
      trusted_node_accounts: ["mesh/ztunnel"],
      node_reach: "anywhere",
    };
    const [report] = await inspectIssuers(configurationOf({ ISSUERS: [table] }), clock);
    expect(report).toEqual({
      cluster: "a",
      issuer: "https://a.test",
      source: "jwks_uri",
      fault: undefined,
      keys: ["k1 RS256/RS384/RS512/PS256/PS384/PS512"],
      unusableKeys: [],
      clockAheadSeconds: 120,
      review: undefined,
      identities: [
        "spiffe://cluster.local/ns/shop-*/sa/*",
        "mesh/ztunnel: these identities, of workloads on its node (claims)",
      ],
    });
  });

  test("with the reason why its keys cannot be fetched", async () => {
    const server = await startLoopbackServer((_, response) => response.writeHead(500).end());
    const ISSUERS = [{ issuer: server.origin }];
    const reports = await inspectIssuers(configurationOf({ ISSUERS }), clock);
    expect(reports).toMatchObject([{ source: "discovery", fault: "answered with status 500" }]);
    expect(formatIssuers(plainScreen(), reports)).toContain("answered with status 500");
  });

  test("without a request when its keys are in the table", async () => {
    const ISSUERS = [{ issuer: "https://a.test", jwks: jwksOf(key) }];
    const reports = await inspectIssuers(configurationOf({ ISSUERS }), clock);
    expect(reports).toMatchObject([{ source: "inline", clockAheadSeconds: undefined }]);
  });
});

test.each([
  ["agrees", 0, undefined],
  ["is two hours behind", -7200, 3],
] as const)("the check of an issuer whose clock %s ends so", async (_, ahead, code) => {
  const folder = await temporaryFolder();
  const server = await startLoopbackServer((_request, response) => {
    const date = new Date(Date.now() + 1000 * ahead).toUTCString();
    response.setHeader("date", date).end(JSON.stringify(jwksOf(key)));
  });
  const config = join(folder, "rampart.toml");
  const lines = [
    `STORE_DIRECTORY = ${JSON.stringify(join(folder, "store"))}`,
    `[[ISSUERS]]\nissuer = "https://a.test"\njwks_uri = "${server.origin}/keys"`,
  ];
  await writeFile(config, lines.join("\n"));
  const environment = { KEK: randomKek() };
  const terminal = new MemoryTerminal({ environment, clock: () => new Date() });
  await terminal.run(clusterCommand, ["check", "-c", config]);
  expect(terminal.exitCode).toBe(code);
});
