import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { security, workloadApiClient } from "../../testkit/agent/sds-client.ts";
import { createTestAuthority, type TestAuthority } from "../../testkit/agent/test-authority.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { startTlsServer } from "../../testkit/network/loopback-tls.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const other = "spiffe://other.test";

let ca: HttpCa;
let roots: readonly TestAuthority[];
let evil: TestAuthority;
beforeAll(async () => {
  ca = await startHttpCa();
  roots = await Promise.all(["a", "b", "c"].map((name) => createTestAuthority(name)));
  evil = await createTestAuthority("evil", "spiffe://evil.test");
});
afterAll(() => ca.close());

const jwtKey = await createTokenKey("ES256", "k");

const rootOf = (index: number): X509Certificate => {
  const root = roots[index];
  if (!root) throw new Error("no such root");
  return root.certificate;
};

function bundleOf(sequence: number, ...certificates: readonly X509Certificate[]): string {
  const keys = certificates.map(({ raw }) => ({
    use: "x509-svid",
    kty: "EC",
    x5c: [raw.toString("base64")],
  }));
  const unreadable = { use: "jwt-svid", kid: "1", kty: "EC" };
  const signing = { ...jwtKey.publicJwk, use: "jwt-svid", kid: `of ${sequence}` };
  const document = { spiffe_sequence: sequence, spiffe_refresh_hint: 1 };
  return JSON.stringify({ ...document, keys: [...keys, unreadable, signing] });
}

/** Starts an agent that is federated with a bundle endpoint of `other.test`, over TLS. */
async function startFederated(listener: RequestListener, changes: Partial<Endpoint> = {}) {
  const server = await startTlsServer(listener);
  const folder = await temporaryFolder();
  const rootFile = join(folder, "web-roots.pem");
  await writeFile(rootFile, changes.trusted ?? server.ca);
  const origin = changes.host ? server.origin.replace("127.0.0.1", changes.host) : server.origin;
  const socket = join(folder, "api");
  const running = await runAgent(ca, {
    RAMPART_WORKLOAD_API_SOCKET: socket,
    RAMPART_BUNDLE_REFRESH: "1s",
    RAMPART_FEDERATED_BUNDLES: `other.test=${origin}/bundle`,
    RAMPART_FEDERATED_ROOT_CA: rootFile,
  });
  return { ...running, client: workloadApiClient(socket), rootFile, serverRoot: server.ca };
}

interface Endpoint {
  readonly host: string;
  /** PEM. */
  readonly trusted: string;
}

type Federated = Pick<Awaited<ReturnType<typeof startFederated>>, "client" | "event">;

/** The root of `other.test` that the Workload API serves, `undefined` if there is none: now, and after each change. */
async function* foreignRoots({ client }: Federated) {
  for await (const { bundles } of client.fetchX509Bundles({}, security)) {
    const der = bundles[other];
    yield der && new X509Certificate(der).subject;
  }
}

const foreignRoot = async (agent: Federated) => (await foreignRoots(agent).next()).value;

async function rootBecomes(agent: Federated, subject: string): Promise<void> {
  for await (const root of foreignRoots(agent)) if (root === subject) return;
}

/** Expects that an agent says that it cannot read the bundle, and sends nothing to the server of the endpoint. */
async function expectNoRequest(start: (listener: RequestListener) => Promise<Federated>) {
  let isRequested = false;
  const agent = await start((_, response) => {
    isRequested = true;
    response.end(bundleOf(1, rootOf(0)));
  });
  await agent.event("bundle-unread");
  expect(await foreignRoot(agent)).toBeUndefined();
  expect(isRequested).toBe(false);
}

/** The ids of the keys for tokens of `other.test` that the Workload API serves. */
async function foreignKeys({ client }: Federated): Promise<readonly string[]> {
  for await (const { bundles } of client.fetchJWTBundles({}, security)) {
    const { keys } = JSON.parse(new TextDecoder().decode(bundles[other]));
    return keys.map(({ kid }: { readonly kid: string }) => kid);
  }
  throw new Error("the stream has ended");
}

test("a workload gets the changing roots of a federated trust domain, and keeps the last good ones", async () => {
  let answer: RequestListener = (_, response) => void response.end(bundleOf(5, rootOf(0)));
  const requests: unknown[] = [];
  const agent = await startFederated((request, response) => {
    const { prefer, authorization } = request.headers;
    requests.push([request.method, prefer, authorization]);
    answer(request, response);
  });
  const becomes = (subject: string) => rootBecomes(agent, subject);
  await becomes("O=a");
  answer = (_, response) => void response.end(bundleOf(6, rootOf(1)));
  await becomes("O=b");
  answer = (_, response) => void response.end(bundleOf(4, rootOf(0)));
  const isRefused = () =>
    agent.events.some(
      ({ event, level, outcome }) =>
        `${event} ${level} ${outcome}` === "federated-bundle-read error sequence-backwards",
    );
  await eventually(() => expect(isRefused()).toBe(true));
  expect(await foreignRoot(agent)).toBe("O=b");
  expect(await foreignKeys(agent)).toEqual(["of 6"]);
  answer = (_, response) => void response.destroy();
  await agent.event("bundle-unread");
  expect(await foreignRoot(agent)).toBe("O=b");
  answer = (_, response) => void response.end(bundleOf(7, rootOf(2)));
  await becomes("O=c");
  // Each request is a GET, without a credential or a preference.
  expect(requests.every((each) => String(each) === "GET,,")).toBe(true);
});

test("the roots of the endpoint are those that their file has at each fetch", async () => {
  const trusted = roots[1]?.pem ?? "";
  const listener: RequestListener = (_, response) => void response.end(bundleOf(1, rootOf(0)));
  const agent = await startFederated(listener, { trusted });
  await agent.event("bundle-unread");
  expect(await foreignRoot(agent)).toBeUndefined();
  await writeFile(agent.rootFile, agent.serverRoot);
  await rootBecomes(agent, "O=a");
});

test.each<[string, () => Partial<Endpoint>]>([
  ["whose certificate has another name", () => ({ host: "localhost" })],
  ["whose root is unknown", () => ({ trusted: roots[0]?.pem ?? "" })],
  ["whose root file is empty", () => ({ trusted: "" })],
])("a server %s gets no request", async (_, changes) => {
  await expectNoRequest((answer) => startFederated(answer, changes()));
});

/** Starts an agent that is federated by https_spiffe, with the bundle of the first root in its file. */
async function startBySvid(listener: RequestListener, changes: Partial<SvidEndpoint> = {}) {
  const { signer = roots[0], names, first = bundleOf(0, rootOf(0)) } = changes;
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const now = Date.now();
  const life = { notBefore: new Date(now - 60_000), notAfter: new Date(now + 3_600_000) };
  const cert = await signer?.issue(endpointId, publicKey, { ...life, ...names });
  const key = privateKey.export({ type: "pkcs8", format: "pem" });
  const server = createServer({ key, cert: cert ?? "" }, listener);
  const { host, close } = await listenOnLoopback(server);
  onTestFinished(() => void close());
  const folder = await temporaryFolder();
  const bundleFile = join(folder, "other.json");
  await writeFile(bundleFile, first);
  const running = await runAgent(ca, {
    RAMPART_WORKLOAD_API_SOCKET: join(folder, "api"),
    RAMPART_BUNDLE_REFRESH: "1s",
    RAMPART_FEDERATED_BUNDLES: `other.test=https://${host}/bundle ${endpointId} ${bundleFile}`,
  });
  return {
    ...running,
    client: workloadApiClient(join(folder, "api")),
    bundleFile,
    server,
    publicKey,
    key,
    life,
  };
}

interface SvidEndpoint {
  readonly signer: TestAuthority | undefined;
  readonly names: Parameters<TestAuthority["issue"]>[2];
  /** The content of the file. */
  readonly first: string;
}

const endpointId = `${other}/spire/server`;

test("https_spiffe: the bundle of a file verifies the endpoint at first, and then the last one fetched", async () => {
  let body = bundleOf(1, rootOf(0), rootOf(1));
  const agent = await startBySvid((_, response) => void response.end(body));
  await rootBecomes(agent, "O=a");
  // The endpoint moves to another root, which no file knows.
  const { server, publicKey, key, life } = agent;
  const cert = await roots[1]?.issue(endpointId, publicKey, life);
  server.setSecureContext({ key, cert: cert ?? "" });
  body = bundleOf(2, rootOf(2));
  await rootBecomes(agent, "O=c");
  // Neither root of before is trusted any more.
  body = bundleOf(3, rootOf(0));
  await agent.event("bundle-unread");
  expect(await foreignRoot(agent)).toBe("O=c");
});

test.each<[string, () => Partial<SvidEndpoint>]>([
  ["of a root that the bundle does not have", () => ({ signer: roots[1] })],
  ["with another SPIFFE ID", () => ({ names: { names: [`${other}/spire/server2`] } })],
  ["with two SPIFFE IDs", () => ({ names: { names: [endpointId, `${other}/b`] } })],
  ["with the name of the host alone", () => ({ names: { names: [], hosts: ["127.0.0.1"] } })],
  [
    "with a DNS name that holds the SPIFFE ID",
    () => ({ names: { names: [], hosts: [`x, URI:${endpointId}, DNS:y`] } }),
  ],
  ["of an authority", () => ({ names: { isCa: true } })],
  ["that has run out", () => ({ names: { notAfter: new Date(Date.now() - 1_000) } })],
  ["whose file has no bundle", () => ({ first: "{}" })],
  ["whose file has an empty bundle", () => ({ first: bundleOf(1) })],
  [
    "whose file has the root of another trust domain",
    () => ({ signer: evil, first: bundleOf(1, evil.certificate) }),
  ],
])("https_spiffe: a server %s gets no request", async (_, changes) => {
  await expectNoRequest((answer) => startBySvid(answer, changes()));
});
