import { expect, test } from "vitest";
import type { AgentStatus } from "../../../../src/agent/status/agent-status.ts";
import type { XdsReport } from "../../../../src/agent/xds/xds-status.ts";
import { describe } from "../../../../src/cli/verbs/run/agent-status.ts";

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

const statusWith = (xds: XdsReport | undefined): AgentStatus => ({
  isReady: true,
  reasons: [],
  identities: [],
  roots: [],
  bundle: { sequence: undefined, confirmedAt: undefined, lastError: undefined, isFollowed: true },
  revocation: { isUsed: false, lists: [], confirmedAt: undefined, lastError: undefined },
  xds,
});

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
