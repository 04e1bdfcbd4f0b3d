import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { runGateway } from "../../../src/node/gateway/gateway.ts";
import { GatewayConfiguration } from "../../../src/node/gateway/gateway-configuration.ts";
import type { RunningServer } from "../../../src/node/server.ts";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { Runtime } from "../../../src/program/runtime.ts";
import { expectCallsCounted } from "../../contract/call-counts.ts";
import { bearer } from "../../contract/rpc-calls.ts";
import { issuers, issuerTables } from "../../contract/service-under-test.ts";
import { patientLimits } from "../../testkit/ca/patient-limits.ts";
import { clusterLocal, scheduleAfter } from "../../testkit/ca/sealed-authorities.ts";
import { type ServedCa, servedName } from "../../testkit/ca/served-ca.ts";
import { mintAccountToken, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createWorkloadKey } from "../../testkit/callers/workload-key.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { connectHttp2 } from "../../testkit/network/http2-client.ts";
import { type CallerTls, nativeClient } from "../../testkit/network/native-grpc.ts";
import { type Relay, startRelay } from "../../testkit/network/relay.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { proved } from "../../testkit/pki/certificates.ts";
import { leafUnder } from "../../testkit/pki/held-leaf.ts";
import { endOf } from "../../testkit/refusal.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { account, serveForGateway } from "./gateway-stage.ts";

const log = createEventRecorder();
const serving = { CertSigner: "serving" };
let directory: string;
let key: TokenKey;
let keys: object;
let served: ServedCa;
let roots: string;
let relay: Relay;
let gateway: RunningServer<GatewayConfiguration>;
let port: number;

const service = () => ({ key, now: () => new Date() });

const configurationWith = (UPSTREAM: string, values: object = {}): GatewayConfiguration =>
  GatewayConfiguration.parse({ ...keys, UPSTREAM, ...values });

function startGateway(upstream: string): Promise<RunningServer<GatewayConfiguration>> {
  return runGateway(configurationWith(upstream), { log, clock: () => new Date() });
}

/** A gateway with other keys than that of all tests, and clients of it. */
async function startOther(values: object, clock = () => new Date()) {
  const configuration = (changes = values) => configurationWith(throughRelay(), changes);
  const other = await runGateway(configuration(), { log, clock });
  onTestFinished(() => other.close(0));
  const { port } = await other.address;
  const monitored = (path: string) =>
    fetch(`http://127.0.0.1:${other.monitoringAddress.port}${path}`);
  const { csrPem: csr } = await createWorkloadKey("spiffe://any/ns/a/sa/b");
  const askAs = (tls: CallerTls) => {
    const client = nativeClient(port, servedName, tls);
    onTestFinished(client.close);
    return (headers = {}) => client.createCertificate({ csr }, headers);
  };
  const reconfigure = (changes: object) => other.reconfigure(configuration(changes));
  return { url: `https://127.0.0.1:${port}`, monitored, askAs, reconfigure };
}

const throughRelay = (): string => `https://localhost:${relay.port}/`;

beforeAll(async () => {
  const down = { ...issuerTables.down, jwks_uri: "http://127.0.0.1:9" };
  const stage = await serveForGateway({}, issuerTables.team, down);
  ({ key, keys, served, folder: directory } = stage);
  roots = await served.bundle();
  relay = await startRelay(served.port);
  gateway = await startGateway(throughRelay());
  ({ port } = await gateway.address);
});

afterAll(async () => {
  await gateway.close(1000);
  relay.close();
  await served.end();
});

/** A way to a CA that keeps what is sent to it from `hold` to `pass`. `held` resolves once so many connections wait. */
async function startSlowPlace(target: number, connections: number) {
  const [held, passed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const kept = new Set<Socket>();
  let isHeld = false;
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target, "127.0.0.1");
    open.add(near);
    near.once("close", () => open.delete(near));
    for (const socket of [near, far]) socket.on("error", () => socket.destroy());
    near.on("close", () => far.destroy());
    far.pipe(near);
    near.on("data", async (octets) => {
      if (isHeld && kept.add(near).size === connections) held.resolve();
      if (isHeld) await passed.promise;
      far.write(octets);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { port, hold: () => (isHeld = true), held: held.promise, pass: passed.resolve, open };
}

beforeEach(() => {
  served.log.audits.length = 0;
});

async function call(
  tls: Partial<CallerTls>,
  headers: Record<string, string> = {},
  request: object = {},
) {
  const client = nativeClient(port, servedName, { roots, ...tls });
  const { privateKey, csrPem } = await createWorkloadKey("spiffe://any/ns/a/sa/b");
  const outcome = await client.createCertificate({ csr: csrPem, ...request }, headers);
  client.close();
  const keyPem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { outcome, keyPem };
}

function leafOf({ outcome }: Awaited<ReturnType<typeof call>>): X509Certificate {
  if (!("certChain" in outcome)) throw new Error(outcome.message);
  return new X509Certificate(outcome.certChain[0] ?? "");
}

async function obtain(name: string, request: object = {}): Promise<CallerTls> {
  const called = await call({}, await bearer(service(), name), request);
  return { roots, keyPem: called.keyPem, chainPem: leafOf(called).toString() };
}

describe("a call through the gateway", () => {
  test("is answered by the CA, for the caller's own token", async () => {
    const called = await call({}, { ...(await bearer(service())), clusterid: "Kubernetes" });
    expect(leafOf(called).subjectAltName).toBe("URI:spiffe://cluster.local/ns/foo/sa/bar");
    expect(served.log.audits).toEqual([expect.objectContaining({ issuer: issuers.cluster })]);
    expect(served.log.audits[0]).not.toHaveProperty("gateway");
  });

  test.each<[string, () => object]>([
    ["Unauthenticated credential-rejected form", () => ({ authorization: "Bearer junk" })],
    ["Unavailable key-provider-unreachable", () => bearer(service(), "foo:bar", issuers.down)],
  ])("is refused as the CA does: %s", async (end, headers) => {
    const shown = (await headers()) as Record<string, string>;
    expect(await endOf(served.log, async () => (await call({}, shown)).outcome)).toBe(end);
  });

  test("does not reach the CA without a credential, or with too long a message", async () => {
    expect((await call({})).outcome).toMatchObject({ code: "Unauthenticated" });
    const large = { csr: "x".repeat(70_000) };
    const { outcome } = await call({}, await bearer(service()), large);
    expect(outcome).toMatchObject({ code: "ResourceExhausted" });
    expect(served.log.audits).toEqual([]);
  });
});

describe("a caller with a certificate", () => {
  test("is forwarded with its own identity", async () => {
    const svid = await obtain("foo:vm");
    served.log.audits.length = 0;
    const leaf = leafOf(await call(svid));
    expect(leaf.subjectAltName).toBe("URI:spiffe://cluster.local/ns/foo/sa/vm");
    expect(served.log.audits[0]).toMatchObject({
      spiffeId: "spiffe://cluster.local/ns/foo/sa/vm",
      gateway: "spiffe://cluster.local/ns/istio-system/sa/rampart-gateway",
      proof: "forwarded",
      forwardedPeer: "127.0.0.1",
    });
    const { requestId } = served.log.audits[0] ?? {};
    expect(log.operations.findLast(({ event }) => event === "forwarded")).toMatchObject({
      requestId,
      peer: "127.0.0.1",
    });
  });

  test("is forwarded until its certificate expires, however long its connection lasts", async () => {
    // The gateway's own certificate lives on.
    const svid = await obtain("foo:vm", { validityDuration: 300n });
    let ahead = 0;
    const { askAs } = await startOther({}, () => new Date(Date.now() + ahead));
    const ask = askAs(svid);
    expect(await ask()).toHaveProperty("certChain");
    served.log.audits.length = 0;
    ahead = 301_000;
    expect(await ask()).toMatchObject({ code: "Unauthenticated" });
    expect(served.log.audits).toEqual([]);
  });

  test("that is no credential is served by its token: of another CA, or refused by this one", async () => {
    const mine = await bearer(service(), "shop:cart");
    const cart = "URI:spiffe://cluster.local/ns/shop/sa/cart";
    const vm = "spiffe://cluster.local/ns/foo/sa/vm";
    const metadata = { ImpersonatedIdentity: vm };
    const refused = await obtain("istio-system:ztunnel", { metadata });
    const schedule = scheduleAfter(new Date(), [-7200, -3600, 3600, 7200]);
    const others = await NewAuthority.create(clusterLocal, "EC-P256", schedule);
    const stranger = { roots, ...(await leafUnder(others, vm, proved)) };
    const refusals = [
      ["Unauthenticated credential-rejected impersonation", refused],
      ["Unauthenticated", stranger],
    ] as const;
    for (const [end, svid] of refusals) {
      const asking = async () => (await call(svid)).outcome;
      expect(await endOf(served.log, asking)).toBe(end);
      expect(leafOf(await call(svid, mine)).subjectAltName).toBe(cart);
      expect(served.log.audits.at(-1)).toMatchObject({ proof: "token", outcome: "issued" });
    }
  });

  test.each<[string, string, string, object]>([
    ["is not listed", issuers.cluster, "istio-system:other-gateway", {}],
    ["is of an unknown issuer", "https://unknown.test", account, {}],
    ["is for another audience", issuers.cluster, account, { aud: ["other"] }],
  ])("is told to retry while the gateway's own account %s", async (_, issuer, name, changes) => {
    const TOKEN_FILE = join(directory, "other-token");
    const write = async (...[of, named, ...more]: [string, string, object?]) =>
      writeFile(TOKEN_FILE, await mintAccountToken(key, of, named, new Date(), { ...more[0] }));
    await write(issuers.cluster, account);
    const { askAs } = await startOther({ TOKEN_FILE });
    const ask = askAs(await obtain("foo:vm"));
    await write(issuer, name, changes);
    expect(await ask()).toMatchObject({ code: "Unavailable" });
    expect(log.operations.at(-1)).toMatchObject({
      event: "upstream-unavailable",
      detail: "the CA refuses the gateway's own credential",
      upstreamStatus: 401,
    });
    await write(issuers.cluster, account);
    expect(await ask()).toHaveProperty("certChain");
  });

  test("is told to retry while the gateway's own token has expired, which /readyz names", async () => {
    const TOKEN_FILE = join(directory, "expiring-token");
    const write = async (changes: Record<string, number>) =>
      writeFile(
        TOKEN_FILE,
        await mintAccountToken(key, issuers.cluster, account, new Date(), changes),
      );
    await write({});
    const { askAs, monitored } = await startOther({ TOKEN_FILE });
    const ask = askAs(await obtain("foo:vm"));
    await write({ exp: Math.floor(Date.now() / 1000) - 1 });
    expect(await ask()).toMatchObject({ code: "Unavailable" });
    expect(log.operations.at(-1)).toMatchObject({
      event: "not-forwarded",
      detail: `${TOKEN_FILE} holds a token that has expired`,
    });
    const askByToken = askAs({ roots });
    expect(await askByToken(await bearer(service()))).toHaveProperty("certChain");
    const junk = { authorization: "Bearer junk" };
    expect(await askByToken(junk)).toMatchObject({ code: "Unauthenticated" });
    await eventually(async () =>
      expect(await (await monitored("/readyz")).json()).toMatchObject({
        ready: true,
        reasons: [`the gateway's own token: ${TOKEN_FILE} holds a token that has expired`],
      }),
    );
  });

  test("cannot request the gateway's DNS names", async () => {
    const svid = await obtain("foo:vm");
    const asking = async () => (await call(svid, {}, { metadata: serving })).outcome;
    expect(await endOf(served.log, asking)).toBe("InvalidArgument signer-unknown");
  });
});

test("no caller can forge the header of a forwarded identity", async () => {
  const forged = { "x-forwarded-client-cert": "URI=spiffe://cluster.local/ns/foo/sa/other" };
  for (const [tls, name] of [
    [await obtain("foo:vm"), "vm"],
    [{}, "bar"],
  ] as const) {
    const called = await call(tls, { ...(await bearer(service())), ...forged });
    expect(leafOf(called).subjectAltName).toBe(`URI:spiffe://cluster.local/ns/foo/sa/${name}`);
  }
  served.log.audits.length = 0;
  expect(await call({}, forged)).toMatchObject({ outcome: { code: "Unauthenticated" } });
  expect(served.log.audits).toEqual([]);
});

test("a gateway publishes the bundle by which it verifies, and is ready", async () => {
  const origin = `http://127.0.0.1:${gateway.monitoringAddress.port}`;
  expect(await (await fetch(`${origin}/bundle.pem`)).text()).toBe(roots);
  expect((await fetch(`${origin}/readyz`)).status).toBe(200);
  expect((await fetch(`${origin}/`)).status).toBe(404);
});

test("a gateway is ready with a certificate in files, although it is of another CA", async () => {
  const { ca, key: keyPem } = await createTlsIdentity();
  const files = { TLS_CERTIFICATE_FILE: ca, TLS_KEY_FILE: keyPem };
  const values: Record<string, string> = {};
  for (const [name, pem] of Object.entries(files)) {
    values[name] = join(directory, name);
    await writeFile(values[name], pem);
  }
  const { monitored } = await startOther(values);
  await eventually(async () => expect((await monitored("/readyz")).status).toBe(200));
});

test("a gateway counts calls by code, whatever their protocol", async () => {
  const { csrPem: csr } = await createWorkloadKey("spiffe://any/ns/a/sa/b");
  const call = { csr, headers: await bearer(service()) };
  const metrics = async (): Promise<string> =>
    (await fetch(`http://127.0.0.1:${gateway.monitoringAddress.port}/metrics`)).text();
  const tls = { ca: roots, servername: servedName };
  const { session, send } = connectHttp2(`https://127.0.0.1:${port}`, tls);
  await expectCallsCounted({ send, metrics }, "HTTP/2", call);
  session.destroy();
});

describe("while the CA is unreachable", () => {
  test("callers get Unavailable, and are served once the CA is back", async () => {
    const headers = await bearer(service());
    relay.cut();
    for (let i = 0; i < 3; i++) {
      expect((await call({}, headers)).outcome).toEqual({
        code: "Unavailable",
        message: "certificate authority is temporarily unavailable",
      });
    }
    const readyz = `http://127.0.0.1:${gateway.monitoringAddress.port}/readyz`;
    const readiness = async (): Promise<unknown> => (await fetch(readyz)).json();
    await eventually(async () =>
      expect(await readiness()).toEqual({
        ready: true,
        runtime: Runtime.faults(),
        reasons: [expect.stringMatching(/^the bundle endpoint did not answer/)],
      }),
    );
    relay.mend();
    expect((await call({}, headers)).outcome).toHaveProperty("certChain");
    await eventually(async () =>
      expect(await readiness()).toMatchObject({ ready: true, reasons: [] }),
    );
  });

  test("a gateway that starts is alive and not ready", async () => {
    const waiting = await startGateway("https://localhost:9");
    const origin = `http://127.0.0.1:${waiting.monitoringAddress.port}`;
    expect((await fetch(`${origin}/healthz`)).status).toBe(200);
    expect((await fetch(`${origin}/readyz`)).status).toBe(503);
    const bundle = await fetch(`${origin}/bundle.pem`);
    expect([bundle.status, bundle.headers.get("retry-after")]).toEqual([
      503,
      expect.stringMatching(/^[1-9]\d*$/),
    ]);
    await waiting.close(1000);
    await expect(waiting.address).rejects.toThrow();
  });
});

describe("another configuration", () => {
  test("moves the gateway to another place of the CA, while calls go on and none fails", async () => {
    const headers = await bearer(service());
    const other = await startRelay(served.port);
    const calls = Array.from({ length: 8 }, () => call({}, headers));
    await gateway.reconfigure(configurationWith(`https://localhost:${other.port}/`));
    for (const each of await Promise.all(calls)) expect(each.outcome).toHaveProperty("certChain");
    relay.cut();
    expect((await call({}, headers)).outcome).toHaveProperty("certChain");
    relay.mend();
    await gateway.reconfigure(configurationWith(throughRelay()));
    other.close();
    expect((await call({}, headers)).outcome).toHaveProperty("certChain");
  });

  test("cuts no exchange of a token that the former place has not answered yet", async () => {
    // One is on a connection that stood, and is sent again if that is cut. The other is not.
    const slow = await startSlowPlace(served.port, 2);
    const moved = await startGateway(`https://localhost:${slow.port}/`);
    onTestFinished(() => moved.close(0));
    const url = `https://127.0.0.1:${(await moved.address).port}`;
    const { session, send } = connectHttp2(url, { ca: roots, servername: servedName });
    onTestFinished(() => session.destroy());
    slow.hold();
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const exchanged = [1, 2].map(() =>
      send(new Request(`${url}/token`, { method: "POST", headers, body: "grant_type=x" })),
    );
    await slow.held;
    await moved.reconfigure(configurationWith(throughRelay()));
    slow.pass();
    const statuses = (await Promise.all(exchanged)).map(({ status }) => status);
    expect(statuses).toEqual([400, 400]);
    // Nothing of the former place is followed, called or kept open any more.
    await eventually(() => expect(slow.open.size).toBe(0));
  });

  test("with roots that cannot be read is refused, and calls go on as before", async () => {
    const UPSTREAM_CA_FILE = join(directory, "nowhere");
    const faulty = configurationWith(throughRelay(), { UPSTREAM_CA_FILE });
    await expect(gateway.reconfigure(faulty)).rejects.toThrow("nowhere does not exist");
    expect((await call({}, await bearer(service()))).outcome).toHaveProperty("certChain");
  });
});

test("no event of a gateway holds a token or a CSR", async () => {
  await eventually(() => expect(log.operations.length).toBeGreaterThan(0));
  const text = JSON.stringify(log.operations);
  expect(text).not.toContain("BEGIN");
  expect(text).not.toContain("eyJ");
});

test("a gateway bounds what strangers hold of it, as its table LIMITS says", async () => {
  const limited = (limits: object) => ({ LIMITS: { ...patientLimits, ...limits } });
  const { url, monitored, reconfigure } = await startOther(limited({ connections_per_address: 1 }));
  const closed = Array.from({ length: 2 }, () => {
    const { session } = connectHttp2(url, { ca: roots, servername: servedName });
    onTestFinished(() => session.destroy());
    session.on("error", () => {});
    return new Promise((resolve) => session.once("close", resolve));
  });
  await Promise.race(closed);
  expect(await (await monitored("/metrics")).text()).toMatch(/rampart_connections[^\n]* 1\n/);
  await reconfigure(limited({ streams_per_connection: 3 }));
  const { session } = connectHttp2(url, { ca: roots, servername: servedName });
  onTestFinished(() => session.destroy());
  expect((await once(session, "remoteSettings"))[0]).toMatchObject({ maxConcurrentStreams: 3 });
});
