import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import { expect, onTestFinished, test } from "vitest";
import type { Environment } from "../../../src/agent/configuration/environment.ts";
import { environmentIn, startTestAgent } from "../../testkit/agent/running-agent.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { startRotatingCa } from "../../testkit/network/rotating-ca.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const identity = await createTlsIdentity(true);

/** An agent whose CA over native gRPC is at this port. */
async function runAt(port: number, variables: Environment = {}) {
  const folder = await temporaryFolder();
  const roots = `${folder}/root-cert.pem`;
  await writeFile(roots, identity.ca);
  const { agent, event, events } = await startTestAgent({
    ...environmentIn(folder, `127.0.0.1:${port}`),
    ...variables,
  });
  const read = async (path: string) => await (await fetch(`${agent.statusUrl}${path}`)).text();
  return { agent, event, events, read, roots };
}

/** The port of a CA that has no bundle. */
async function withoutBundle(): Promise<number> {
  const { key, ca: cert } = identity;
  const server = createServer({ key, cert }, (_, response) => response.writeHead(404).end());
  const { host, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return Number(host.split(":")[1]);
}

test("says that no roots are followed where the CA has no bundle", async () => {
  const { event, events, read } = await runAt(await withoutBundle());
  expect(await event("bundle-unfollowed")).toMatchObject({ level: "warning" });
  const { reasons } = JSON.parse(await read("/readyz"));
  expect(reasons).toContainEqual(
    expect.stringMatching(/^roots, taints and CRLs are not followed: https:.*has no bundle/),
  );
  expect(JSON.parse(await read("/status")).bundle).toMatchObject({ isFollowed: false });
  expect(await read("/metrics")).toMatch(/^istio_agent_trust_bundle_followed 0$/m);
  expect(events.filter((each) => each.event === "bundle-unfollowed")).toHaveLength(1);
});

test("logs no missing bundle where the operator wants none, or gives its URL, and says where that one is wrong", async () => {
  const port = await withoutBundle();
  const off = await runAt(port, { RAMPART_BUNDLE_URL: "off" });
  expect(JSON.parse(await off.read("/status")).bundle).toMatchObject({ isFollowed: false });
  expect(off.events.map(({ event }) => event)).not.toContain("bundle-unfollowed");
  const url = `https://127.0.0.1:${port}/bundle.json`;
  const given = await runAt(port, { RAMPART_BUNDLE_URL: url });
  await given.event("bundle-unread");
  const { reasons } = JSON.parse(await given.read("/readyz"));
  expect(reasons.join()).toContain("not followed: the bundle endpoint answered with status 404");
  expect(given.events.map(({ event }) => event)).not.toContain("bundle-unfollowed");
});

test("verifies its CA by learned roots after rotations and a restart, until they are withdrawn", async () => {
  const [old, next, last] = [
    identity,
    await createTlsIdentity(true),
    await createTlsIdentity(true),
  ];
  const ca = await startRotatingCa(old);
  const variables = { RAMPART_CACHE: await temporaryFolder() };
  const first = await runAt(ca.port, variables);
  const read = (sequence: number) =>
    eventually(() => expect(first.events).toContainEqual(expect.objectContaining({ sequence })));
  await first.event("bundle-read");
  ca.publish(old, [old, next]);
  await read(1);
  // The file of roots has the first root alone, which is gone.
  ca.publish(next, [next]);
  await read(2);
  ca.publish(next, [next, last]);
  await read(3);
  await first.agent.close();
  const second = await runAt(ca.port, variables);
  await second.event("bundle-read");
  ca.publish(last, [last]);
  await eventually(() =>
    expect(second.events).toContainEqual(expect.objectContaining({ sequence: 4 })),
  );
  await second.agent.close();
  // Thieves of the withdrawn keys: one root is in the file, the other was learned.
  for (const thief of [old, next]) {
    ca.publish(thief, [thief]);
    const third = await runAt(ca.port, variables);
    expect(await third.event("bundle-unread")).toMatchObject({
      detail: expect.stringMatching(/SELF_SIGNED|certificate/),
    });
    expect(third.events.map(({ event }) => event)).not.toContain("bundle-read");
    await third.agent.close();
  }
});

test("says what to do when roots have changed faster than it could follow, and goes on with a new file", async () => {
  const [next, last] = [await createTlsIdentity(true), await createTlsIdentity(true)];
  const ca = await startRotatingCa(identity);
  const variables = { RAMPART_CACHE: await temporaryFolder() };
  const before = await runAt(ca.port, variables);
  await before.event("bundle-read");
  await before.agent.close();
  // Two bundles that no agent has seen.
  ca.publish(identity, [identity, next]);
  ca.publish(last, [last]);
  const after = await runAt(ca.port, variables);
  expect(await after.event("bundle-unfollowed")).toMatchObject({ level: "error" });
  await after.event("bundle-unread", 2);
  expect(after.events.filter(({ event }) => event === "bundle-unfollowed")).toHaveLength(1);
  const { reasons } = JSON.parse(await after.read("/readyz"));
  expect(reasons).toContainEqual(
    expect.stringMatching(/certificate of no root that this agent knows; .*root-cert\.pem$/),
  );
  expect(await after.read("/metrics")).toMatch(/^istio_agent_trust_bundle_followed 0$/m);
  await writeFile(after.roots, last.ca);
  await after.event("bundle-read");
  expect(JSON.parse(await after.read("/status"))).toMatchObject({
    bundle: { isFollowed: true, sequence: 2 },
    roots: [{ sha256: new X509Certificate(last.ca).fingerprint256 }],
  });
  const { reasons: now } = JSON.parse(await after.read("/readyz"));
  expect(now).not.toContainEqual(expect.stringContaining("not followed"));
});
