import { rm } from "node:fs/promises";
import { expect, onTestFinished, test } from "vitest";
import { heapFlags } from "../../../../dev/package/node-flags.ts";
import type { AgentStatus } from "../../../../src/agent/agent-status.ts";
import { serveStatus } from "../../../../src/agent/status/status-server.ts";
import type { XdsReport } from "../../../../src/agent/xds/xds-status.ts";
import { describe } from "../../../../src/cli/verbs/run/agent.ts";
import { parseLog } from "../../../testkit/log/log-lines.ts";
import {
  type Answer,
  createOperatorFolder,
  rampart,
} from "../../../testkit/programs/command-line.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";

const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };

async function run(words: string, variables: Readonly<Record<string, string>>): Promise<Answer> {
  const folder = await createOperatorFolder();
  onTestFinished(() => rm(folder.path, { recursive: true, force: true }));
  return await rampart(folder, words, { ...pod, ...variables });
}

/** Of an agent without a CA. */
const alone = {
  CA_ADDR: "http://127.0.0.1:1",
  RAMPART_TOKEN_FILE: "token",
  RAMPART_SDS_SOCKET: "sds",
  RAMPART_STATUS_ADDR: "127.0.0.1:0",
};

test("an agent logs on the standard error, and leaves the standard output to its program", async () => {
  const { code, stdout, stderr } = await run("agent run -- node -p 6*7", alone);
  expect({ code, stdout }).toEqual({ code: 0, stdout: "42\n" });
  const lines = parseLog(stderr);
  expect(lines).toContainEqual(expect.objectContaining({ event: "agent-started", level: "info" }));
  expect(lines).toContainEqual(expect.objectContaining({ event: "proxy-exited", code: 0 }));
});

test("a proxy that Node runs has WebAssembly, where its agent does without machine code", async () => {
  const shown = "process.env.NODE_OPTIONS+typeof(WebAssembly)";
  const { stdout } = await run(`agent run -- node -p ${shown}`, {
    ...alone,
    NODE_OPTIONS: heapFlags.agent.join(" "),
  });
  expect(stdout).toBe("--max-semi-space-size=1 --max-old-space-size=64object\n");
});

test.each(["run", "bootstrap", "status"])(
  "`rampart agent %s` names every fault of its environment, and shows no stack",
  async (verb) => {
    const environment = { ...pod, SECRET_TTL: "1 day", TRUST_DOMAIN: "UPPER" };
    const { exitCode, printed, said } = await MemoryTerminal.ran(["agent", verb], { environment });
    expect([exitCode, printed]).toEqual([1, ""]);
    expect(said).toMatch(/^rampart: SECRET_TTL: .*\n +TRUST_DOMAIN: .*\n$/);
  },
);

const statusWith = (xds: XdsReport | undefined): AgentStatus => ({
  isReady: true,
  reasons: [],
  proxies: [],
  identities: [],
  roots: [],
  bundle: { sequence: undefined, confirmedAt: undefined, lastError: undefined, isFollowed: true },
  revocation: { isUsed: false, lists: [], confirmedAt: undefined, lastError: undefined },
  xds,
});

test("`rampart agent status` says why an agent is not ready, and ends with 3", async () => {
  const reasons = ["Envoy has no listeners yet"];
  const proxy = {
    faults: async () => reasons,
    metrics: async () => "",
    drain: async () => undefined,
    quit: () => undefined,
  };
  const view = { status: () => statusWith(undefined), metrics: async () => "", proxy };
  const server = await serveStatus({ host: "127.0.0.1", port: 0 }, view);
  onTestFinished(() => server.close());
  const { code, stdout } = await run("agent status", {
    RAMPART_STATUS_ADDR: new URL(server.url).host,
  });
  expect(code).toBe(3);
  expect(stdout).toMatch(/^not ready\n {2}Envoy has no listeners yet\n/);
});

const cluster = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

const connected: XdsReport = {
  address: "istiod.example:15012",
  isConnected: true,
  protocol: "incremental",
  connectedSince: "2026-01-01T00:00:00.000Z",
  lastEnd: { at: "2025-12-31T23:59:59.000Z", by: "istiod", detail: "transport is closing" },
  types: [
    {
      typeUrl: cluster,
      lastPushAt: "2026-01-01T00:00:01.000Z",
      secondsAgo: 7,
      pushes: 3,
      octets: 1000,
      nacks: 1,
    },
  ],
  lastNack: { at: "2026-01-01T00:00:02.000Z", typeUrl: cluster, detail: "no \u001b[31m filter" },
};

const linesOf = (xds: XdsReport | undefined): readonly string[] => describe(statusWith(xds));

test("says to whom the agent is connected since when, and what was pushed and rejected", () => {
  expect(linesOf(connected).slice(-4)).toEqual([
    "istiod          istiod.example:15012, connected since 2026-01-01T00:00:00.000Z (incremental)",
    "  last end      2025-12-31T23:59:59.000Z by istiod: transport is closing",
    "  last push     7 s ago, 3 in all, 1 rejected: envoy.config.cluster.v3.Cluster",
    "  last NACK     2026-01-01T00:00:02.000Z envoy.config.cluster.v3.Cluster: no ?[31m filter",
  ]);
});

test("says that the agent is not connected", () => {
  const none = { ...connected, connectedSince: undefined, isConnected: false, types: [] };
  expect(linesOf({ ...none, lastEnd: undefined, lastNack: undefined }).at(-1)).toBe(
    "istiod          istiod.example:15012, not connected",
  );
});

test("says nothing of istiod where the agent is no XDS proxy", () => {
  expect(linesOf(undefined).join("\n")).not.toContain("istiod");
});
