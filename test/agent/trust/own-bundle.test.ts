import { writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import type { Environment } from "../../../src/agent/configuration/environment.ts";
import { openCertificateCache } from "../../../src/agent/identity/certificate-cache.ts";
import { startTestAgent } from "../../testkit/agent/running-agent.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const identity = await createTlsIdentity();

/** An agent whose CA over native gRPC is at this port. */
async function runAt(port: number, variables: Environment = {}) {
  const folder = await temporaryFolder();
  await writeFile(`${folder}/root-cert.pem`, identity.ca);
  const { agent, event, events } = await startTestAgent({
    CA_ADDR: `127.0.0.1:${port}`,
    CA_ROOT_CA: `${folder}/root-cert.pem`,
    POD_NAMESPACE: "foo",
    SERVICE_ACCOUNT: "bar",
    RAMPART_TOKEN_FILE: `${folder}/token`,
    RAMPART_SDS_SOCKET: `${folder}/sds`,
    RAMPART_STATUS_ADDR: "127.0.0.1:0",
    ...variables,
  });
  const read = async (path: string) => await (await fetch(`${agent.statusUrl}${path}`)).text();
  return { event, events, read };
}

/** The roots of an earlier run: without one, no CRL has an issuer. */
async function cacheWithRoots(): Promise<string> {
  const folder = await temporaryFolder();
  const ports = { clock: () => new Date(), log: createEventRecorder() };
  await (await openCertificateCache({ folder, keyFile: undefined }, ports)).storeRoots(identity.ca);
  return folder;
}

async function answering(listener: RequestListener): Promise<number> {
  const server = createServer({ key: identity.key, cert: identity.ca }, listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
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

test.each([401, 403, 408, 421, 503])("asks a CA again that answers %d", async (status) => {
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
  expect(await read("/metrics")).toMatch(/^istio_agent_trust_bundle_followed 1$/m);
});

test("believes an operator that wants no bundle, and one that gives its URL", async () => {
  const port = await answering((_request, response) => response.writeHead(404).end());
  const off = await runAt(port, { RAMPART_BUNDLE_URL: "off" });
  expect(JSON.parse(await off.read("/status")).bundle).toMatchObject({ isFollowed: false });
  expect(off.events.map(({ event }) => event)).not.toContain("bundle-unfollowed");
  const url = `https://127.0.0.1:${port}/bundle.json`;
  const given = await runAt(port, { RAMPART_BUNDLE_URL: url });
  await given.event("bundle-unread");
  expect(given.events.map(({ event }) => event)).not.toContain("bundle-unfollowed");
});
