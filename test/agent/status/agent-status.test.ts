import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { reportAgent } from "../../../src/agent/agent-status.ts";
import { TrustRoots } from "../../../src/agent/trust/trust-roots.ts";
import { ConfigurationError } from "../../../src/foundation/errors.ts";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";

let ca: HttpCa;
beforeAll(async () => {
  // Its only root is looked at.
  ca = await startHttpCa({}, {}, true);
});
afterAll(() => ca.close());

test("shows every identity, the roots, and when the bundle was confirmed", async () => {
  const { agent, event } = await runAgent(ca, { RAMPART_MISSPELT: "1" });
  expect(await event("variable-ignored")).toMatchObject({
    level: "warning",
    name: "RAMPART_MISSPELT",
    detail: expect.stringContaining("no variable of this name"),
  });
  await event("certificate-obtained");
  await event("bundle-read");
  const status = await (await fetch(`${agent.statusUrl}/status`)).json();
  expect(status).not.toHaveProperty("xds");
  expect(status).toMatchObject({
    isReady: true,
    reasons: [],
    identities: [{ spiffeId: "spiffe://cluster.local/ns/foo/sa/bar", issuer: "O=cluster.local" }],
    roots: [{ subject: expect.stringContaining("cluster.local") }],
    bundle: { sequence: expect.any(Number), confirmedAt: expect.any(String) },
  });
  const [{ hoursLeft }] = status.identities;
  expect(hoursLeft).toBeGreaterThan(23);
  expect(hoursLeft).toBeLessThanOrEqual(24);
});

test("is ready once it has a certificate, and gives the reason before", async () => {
  const { agent, event } = await runAgent(ca, { RAMPART_TOKEN_FILE: "/nowhere" });
  await event("renewal-failed");
  const response = await fetch(`${agent.statusUrl}/readyz`);
  expect(response.status).toBe(503);
  expect((await response.json()).reasons[0]).toContain("request authentication failed");
  expect((await fetch(`${agent.statusUrl}/healthz`)).status).toBe(200);
  const ready = await runAgent(ca);
  await ready.event("certificate-obtained");
  expect((await fetch(`${ready.agent.statusUrl}/healthz/ready`)).status).toBe(200);
});

test("has the metrics of Istio's agents", async () => {
  const { agent, event } = await runAgent(ca);
  await event("certificate-obtained");
  await event("bundle-read");
  const text = await (await fetch(`${agent.statusUrl}/metrics`)).text();
  expect(text).not.toContain("xds");
  const value = (name: string): number =>
    Number(
      text
        .split("\n")
        .find((line) => line.startsWith(name))
        ?.split(" ")
        .at(-1),
    );
  expect(value('istio_agent_num_outgoing_requests{request_type="csr"}')).toBe(1);
  expect(value('istio_agent_outgoing_latency{request_type="csr"}')).toBeGreaterThan(0);
  expect(value('istio_agent_cert_expiry_seconds{resource_name="default"}')).toBeGreaterThan(
    23 * 3600,
  );
  expect(value("istio_agent_trust_bundle_age_seconds")).toBeGreaterThanOrEqual(0);
});

test("says nothing of the age of a bundle that it never read", async () => {
  const off = await runAgent(ca, { RAMPART_BUNDLE_URL: "off" });
  await off.event("certificate-obtained");
  const unread = await runAgent(ca, { RAMPART_BUNDLE_URL: `${ca.url}/nowhere` });
  await Promise.all([unread.event("bundle-unread"), unread.event("certificate-obtained")]);
  for (const { agent } of [off, unread]) {
    const text = await (await fetch(`${agent.statusUrl}/metrics`)).text();
    expect(text).not.toMatch(/^istio_agent_trust_bundle_age_seconds/m);
    expect(text).toMatch(/^istio_agent_num_outgoing_requests/m);
  }
});

test("an agent whose status address is taken does not start, and leaves no socket", async () => {
  const { agent, folder } = await runAgent(ca);
  const variables = {
    RAMPART_STATUS_ADDR: new URL(agent.statusUrl).host,
    RAMPART_SDS_SOCKET: `${folder}/other-sds`,
  };
  await expect(runAgent(ca, variables)).rejects.toThrow(ConfigurationError);
  await expect(once(connect(variables.RAMPART_SDS_SOCKET), "connect")).rejects.toThrow("ENOENT");
});

test("is not ready while the files that certificates must come from are missing", async () => {
  const { agent } = await runAgent(ca, { FILE_MOUNTED_CERTS: "true" });
  const response = await fetch(`${agent.statusUrl}/readyz`);
  expect(response.status).toBe(503);
  const { reasons } = await response.json();
  expect(reasons).toEqual([
    expect.stringMatching(/etc\/certs\/cert-chain\.pem.*ENOENT/),
    expect.stringMatching(/etc\/certs\/root-cert\.pem.*ENOENT/),
  ]);
});

test("an agent of a node is not ready while it does not know the workloads", () => {
  const parts = {
    identities: { all: () => [] },
    mounted: { faults: () => [] },
    trust: new TrustRoots(),
    ...{ revocation: { all: [], crls: [] }, bundle: {} },
  };
  const report = (fault?: string) =>
    reportAgent({ ...parts, feed: { fault }, now: new Date() } as never);
  expect(report()).toMatchObject({ isReady: true, reasons: [] });
  expect(report("no pods")).toMatchObject({ isReady: false, reasons: ["no pods"] });
});

test("faults that leave the certificates as they are have a sentence each, and the agent is ready", () => {
  const report = reportAgent({
    ...{ identities: { all: () => [] }, mounted: { faults: () => [] }, trust: new TrustRoots() },
    revocation: { all: [], crls: [], fault: "no CRLs" },
    bundle: { fault: "no bundle" },
    files: { faults: ["no files", "no command"] },
    logOutput: { fault: () => "no log" },
    now: new Date(),
  } as never);
  const reasons = ["no bundle", "no CRLs", "no files", "no command", "no log"];
  expect(report).toMatchObject({ isReady: true, reasons });
});
