import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import type { Environment } from "../../../src/agent/configuration/environment.ts";
import { CertificateCache } from "../../../src/agent/identity/certificate-cache.ts";
import { environmentIn, startTestAgent } from "../../testkit/agent/running-agent.ts";
import { security, workloadApiClient } from "../../testkit/agent/sds-client.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { startRotatingCa } from "../../testkit/network/rotating-ca.ts";
import { createTlsIdentity, type TlsIdentity } from "../../testkit/network/tls-identity.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const identity = await createTlsIdentity(true);

/** The root of the CA, in a bundle of SPIFFE. */
const root = { use: "x509-svid", x5c: [new X509Certificate(identity.ca).raw.toString("base64")] };

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

/** The roots of an earlier run: without one, no CRL has an issuer. */
async function cacheWithRoots(): Promise<string> {
  const folder = await temporaryFolder();
  const ports = { clock: () => new Date(), log: createEventRecorder() };
  await (await CertificateCache.open({ folder, keyFile: undefined }, ports)).storeRoots(
    identity.ca,
  );
  return folder;
}

async function answering(
  listener: RequestListener,
  { key, ca: cert }: TlsIdentity = identity,
  port = 0,
): Promise<number> {
  const server = createServer({ key, cert }, listener);
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

/** As istiod does, it closes a connection that does not speak HTTP/2. */
async function closing(): Promise<number> {
  const server = createTlsServer({ key: identity.key, cert: identity.ca }, (socket) => {
    socket.on("error", () => undefined).destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

test.each([
  ["answers 404", () => answering((_request, response) => response.writeHead(404).end())],
  ["closes every connection", closing],
])("says that no roots are followed where the CA %s", async (_case, start) => {
  const { event, events, read } = await runAt(await start());
  expect(await event("bundle-unfollowed")).toMatchObject({ level: "warning" });
  const { reasons } = JSON.parse(await read("/readyz"));
  expect(reasons).toContainEqual(
    expect.stringMatching(/^roots, taints and CRLs are not followed: https:.*has no bundle/),
  );
  expect(JSON.parse(await read("/status")).bundle).toMatchObject({ isFollowed: false });
  expect(await read("/metrics")).toMatch(/^istio_agent_trust_bundle_followed 0$/m);
  expect(events.filter((each) => each.event === "bundle-unfollowed")).toHaveLength(1);
});

test.each([401, 503])("asks a CA again that answers %d", async (status) => {
  const asked: (string | undefined)[] = [];
  const port = await answering((request, response) => {
    asked.push(request.url);
    response.writeHead(status).end();
  });
  const { event, read } = await runAt(port, { RAMPART_CACHE: await cacheWithRoots() });
  await event("bundle-unread", 2);
  expect(asked.filter((url) => url === "/bundle.json").length).toBeGreaterThan(1);
  await event("revocation-lists-unread");
  expect(asked).toContain("/crl.pem");
  expect(await read("/metrics")).toMatch(/^istio_agent_trust_bundle_followed 0$/m);
});

test("takes a CA for an istiod by closed connections in a row alone", async () => {
  let asked = 0;
  const port = await answering((request, response) => {
    asked++;
    if (asked % 3 === 0) response.writeHead(503).end();
    else request.socket.destroy();
  });
  const { event, events } = await runAt(port);
  await event("bundle-unread", 6);
  expect(events.map((each) => each.event)).not.toContain("bundle-unfollowed");
});

test("goes on to follow a CA that had a bundle, and answers 404 for a while", async () => {
  let sequence: number | undefined = 1;
  const port = await answering((_request, response) => {
    if (sequence === undefined) return void response.writeHead(404).end();
    const document = { spiffe_sequence: sequence, spiffe_refresh_hint: 1, keys: [root] };
    response.end(JSON.stringify(document));
  });
  const { event, events } = await runAt(port);
  await event("bundle-read");
  sequence = undefined;
  const told = () => events.map((each) => each.event).find((name) => /^bundle-un/.test(name ?? ""));
  await eventually(() => expect(told()).toBeDefined());
  expect(told()).toBe("bundle-unread");
  sequence = 2;
  const read = expect.objectContaining({ event: "bundle-read", sequence: 2 });
  await eventually(() => expect(events).toContainEqual(read));
});

test("logs no missing bundle where the operator wants none, or gives its URL, and says where that one is wrong", async () => {
  const port = await answering((_request, response) => response.writeHead(404).end());
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

test("a bundle that goes backwards brings back neither its roots nor its keys for tokens", async () => {
  const { publicJwk } = await createTokenKey("ES256", "k");
  let sequence = 2;
  const port = await answering((_request, response) => {
    const signing = { ...publicJwk, use: "jwt-svid", kid: `of ${sequence}` };
    const document = { spiffe_sequence: sequence, spiffe_refresh_hint: 1, keys: [root, signing] };
    response.end(JSON.stringify(document));
  });
  const socket = `${await temporaryFolder()}/api`;
  const { event, events } = await runAt(port, { RAMPART_WORKLOAD_API_SOCKET: socket });
  await event("bundle-read");
  sequence = 1;
  const refused = expect.objectContaining({ level: "error", outcome: "sequence-backwards" });
  await eventually(() => expect(events).toContainEqual(refused));
  const stream = workloadApiClient(socket).fetchJWTBundles({}, security);
  for await (const { bundles } of stream) {
    const served = JSON.parse(new TextDecoder().decode(bundles["spiffe://cluster.local"]));
    expect(served.keys).toMatchObject([{ kid: "of 2" }]);
    break;
  }
});
