import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createSecureServer, type Http2ServerRequest } from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { TLSSocket } from "node:tls";
import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import {
  clientCertificateIn,
  type RequestSettings,
} from "../../../src/agent/configuration/ca-settings.ts";
import { CaChannel, type ConnectionTrust } from "../../../src/agent/identity/ca-channel.ts";
import { CaClient, issueThrough } from "../../../src/agent/identity/ca-client.ts";
import {
  generateSubjectKey,
  IssuanceError,
  privateKeyPem,
} from "../../../src/agent/identity/x509-svid.ts";
import { AgentMetrics } from "../../../src/agent/status/metrics.ts";
import { TraceContext } from "../../../src/foundation/trace-context.ts";
import {
  type IstioCertificateRequest,
  IstioCertificateService,
} from "../../../src/gen/istio/v1/auth/ca_pb.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { workload } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const spiffeId = workload("foo", "bar");
const now = new Date("2026-11-21T12:00:01Z");
const day = 86_400_000;
const root = await createTestAuthority();
const serverKey = await generateSubjectKey({ kind: "EC", curve: "P-256" });
const real = { notBefore: new Date(Date.now() - day), notAfter: new Date(Date.now() + day) };
const serverPem = await root.issue("", serverKey.publicKey, {
  ...real,
  hosts: ["istiod.istio-system.svc"],
});

/** A call that the server received. */
interface Call {
  readonly request: IstioCertificateRequest;
  readonly headers: Headers;
  readonly peer: string;
}

let metrics: AgentMetrics;
let folder: string;
let calls: Call[];
let peers: string[];
let connections: number;
let isWithdrawn: ConnectionTrust["isWithdrawn"];
let rootsFor: ConnectionTrust["rootsFor"];
let answer: (call: Call) => readonly string[] | ConnectError | Promise<never>;

beforeEach(async () => {
  folder = await temporaryFolder();
  metrics = new AgentMetrics();
  calls = [];
  peers = [];
  connections = 0;
  rootsFor = (file) => file;
  answer = () => ["foo", "bar"];
  isWithdrawn = () => false;
  await writeFile(join(folder, "token"), " a.b.c\n");
  await writeFile(join(folder, "root-cert.pem"), root.pem);
});

/** Starts a native gRPC server with istiod's name in its certificate. @returns Its port. */
async function startServer(): Promise<number> {
  const adapter = connectNodeAdapter({
    routes: (router) =>
      router.service(IstioCertificateService, {
        async createCertificate(request, { requestHeader: headers }) {
          const call = { request, headers, peer: peers.at(-1) ?? "" };
          calls.push(call);
          const answered = await answer(call);
          if (answered instanceof ConnectError) throw answered;
          return { certChain: [...answered] };
        },
      }),
  });
  const tls = { key: privateKeyPem(serverKey.privateKey, true), cert: serverPem, ca: root.pem };
  const options = { ...tls, requestCert: true, rejectUnauthorized: false };
  const server = createSecureServer(options, (request: Http2ServerRequest, response) => {
    peers.push((request.socket as TLSSocket).getPeerCertificate().subjectaltname ?? "");
    adapter(request, response);
  });
  server.on("secureConnection", () => connections++);
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const settings = (): RequestSettings => ({
  key: { kind: "EC", curve: "P-256" },
  lifetimeSeconds: 86_400,
  token: { kind: "file", path: join(folder, "token") },
  clusterId: "Kubernetes",
  certSigner: "",
  purpose: "identity",
  headers: { "X-Team": "blue" },
  attemptTimeoutMilliseconds: hangMilliseconds,
  impersonates: false,
});

const trace = TraceContext.create();
const log = createEventRecorder();

async function createIssue(
  changes: Partial<RequestSettings> = {},
  serverName = "istiod.istio-system.svc",
) {
  const baseUrl = `https://127.0.0.1:${await startServer()}`;
  const address = { protocol: "grpc" as const, baseUrl, serverName };
  log.operations.length = 0;
  const files = {
    rootFile: join(folder, "root-cert.pem"),
    clientCertificate: clientCertificateIn(folder),
    serverName,
  };
  const channel = new CaChannel({ address, files }, () => new Date(), { rootsFor, isWithdrawn });
  const used = { ...settings(), ...changes };
  const ca = new CaClient(used, { channel, random: () => 0, log, pause: async () => {} });
  const issue = issueThrough(used, { ca, clock: () => now, metrics });
  return () => issue(spiffeId, new AbortController().signal, trace);
}

async function createCalls(
  ...client: Parameters<typeof createIssue>
): Promise<() => Promise<string>> {
  const issue = await createIssue(...client);
  return () =>
    issue().then(
      () => "issued",
      (error) => (error instanceof IssuanceError ? error.fault : Promise.reject(error)),
    );
}

/** The only call of a client. */
async function call(...client: Parameters<typeof createCalls>): Promise<string> {
  return await (await createCalls(...client))();
}

test("counts a certificate that it did not get once, as pilot-agent does, and its attempts as retries", async () => {
  answer = () => new ConnectError("away", Code.Unavailable);
  await call();
  answer = () => [];
  await call();
  const text = await metrics.text();
  for (const [name, count] of [
    ["num_outgoing_requests", 2],
    ["num_failed_outgoing_requests", 2],
    ["num_outgoing_retries", 4],
  ] as const)
    expect(text).toContain(`istio_agent_${name}{request_type="csr"} ${count}\n`);
});

test("sends what pilot-agent sends, over native gRPC and TLS", async () => {
  await call();
  const [{ request, headers } = { request: undefined, headers: new Headers() }] = calls;
  expect(request).toMatchObject({ validityDuration: 86_400n, metadata: { CertSigner: "" } });
  expect(headers.get("authorization")).toBe("Bearer a.b.c");
  expect(headers.get("clusterid")).toBe("Kubernetes");
  expect(headers.get("x-team")).toBe("blue");
});

test("names no cluster, no credential and no signer that it does not have, and as a node proxy the workload", async () => {
  await writeFile(join(folder, "token"), " \n");
  await call({ clusterId: "", impersonates: true });
  const [{ request, headers } = { request: undefined, headers: new Headers() }] = calls;
  expect(["clusterid", "authorization"].map((name) => headers.get(name))).toEqual([null, null]);
  expect(request?.metadata).toEqual({ ImpersonatedIdentity: spiffeId });
  await call({ token: { kind: "file", path: join(folder, "nowhere") } });
  const { traceId, spanId } = trace;
  expect(log.operations).toMatchObject([{ event: "token-missing", traceId, spanId }]);
});

test("without a token of its source it calls nobody, and does not try again", async () => {
  await writeFile(join(folder, "token"), "two words");
  expect(await call()).toBe("token-unusable");
  const token = { kind: "command", argv: [join(folder, "nowhere")] } as const;
  const issue = await createIssue({ token });
  await expect(issue()).rejects.toMatchObject({
    fault: "token-unusable",
    message: `no token: the command ${join(folder, "nowhere")} cannot be run: ENOENT`,
  });
  expect(calls).toEqual([]);
  expect(log.operations).toEqual([]);
});

test.each(["", "# no root yet\n"])(
  "refuses a root file whose content is %j, names it, and does not try again",
  async (text) => {
    // Node takes an empty list of roots for the roots of the system.
    await writeFile(join(folder, "root-cert.pem"), text);
    await expect((await createIssue())()).rejects.toMatchObject({
      fault: "authority-unreachable",
      message: expect.stringMatching(/^(?!the CA answered).*root-cert\.pem/),
    });
    expect([...calls, ...log.operations]).toEqual([]);
  },
);

test("makes five attempts after a retryable code, numbers them, and sends and logs the trace with each", async () => {
  answer = () => new ConnectError("away", Code.Unavailable);
  expect(await call()).toBe("authority-unreachable");
  const { traceId, spanId } = trace;
  expect(
    calls.map(({ headers }) => [headers.get("x-retry-attempt"), headers.get("traceparent")]),
  ).toEqual([null, "1", "2", "3", "4"].map((n) => [n, `00-${traceId}-${spanId}-00`]));
  const retried = { event: "csr-retried", code: "Unavailable", traceId, spanId };
  expect(log.operations).toMatchObject([retried, retried, retried, retried]);
});

test("makes one attempt while the last call has failed, and five after one that was answered", async () => {
  answer = () => new ConnectError("away", Code.Unavailable);
  const callAgain = await createCalls();
  await callAgain();
  expect(calls).toHaveLength(5);
  await callAgain();
  await callAgain();
  expect(calls).toHaveLength(7);
  answer = () => [];
  await callAgain();
  answer = () => new ConnectError("away", Code.Unavailable);
  await callAgain();
  expect(calls).toHaveLength(13);
});

test("tries again after a code that may pass, and not after a refusal or a wrong answer", async () => {
  answer = () => (calls.length === 1 ? new ConnectError("away", Code.Unknown) : []);
  expect(await call()).toBe("answer-empty");
  expect(calls).toHaveLength(2);
  answer = () => new ConnectError("no", Code.Unauthenticated);
  expect(await call()).toBe("authority-refused");
  expect(calls).toHaveLength(3);
  // Istio's client accepts these.
  answer = () => ["foo", "bar"];
  expect(await call()).toBe("answer-malformed");
  expect(calls).toHaveLength(4);
});

const waiting = (value: string, code = Code.ResourceExhausted) =>
  new ConnectError("later", code, { "retry-after": value });

test.each([
  ["1", Code.ResourceExhausted, 1],
  ["99999", Code.Unavailable, 99_999],
])("waits for %s seconds if the CA asks for it with the code %d", async (value, code, seconds) => {
  answer = () => waiting(value, code);
  const wait = await (await createIssue())().catch(
    (error: IssuanceError) => error.retryAfterSeconds,
  );
  expect(wait).toBe(seconds);
  expect(calls).toHaveLength(1);
});

test("tries again at once if the CA asks for no wait", async () => {
  answer = () => (calls.length === 1 ? waiting("0") : []);
  expect(await call()).toBe("answer-empty");
  expect(calls).toHaveLength(2);
});

test("waits for nothing after a refusal for good, and says that the CA answered", async () => {
  answer = () => waiting("7", Code.PermissionDenied);
  await expect((await createIssue())()).rejects.toMatchObject({
    message: expect.stringMatching(/^the CA answered .*later/),
    retryAfterSeconds: 0,
  });
  expect(calls).toHaveLength(1);
});

test("gives up on a CA that never answers, or without end", async () => {
  answer = () => new Promise<never>(() => undefined);
  expect(await call({ attemptTimeoutMilliseconds: 20 })).toBe("authority-unreachable");
  answer = () => ["x".repeat(2_000_000)];
  await expect((await createIssue())()).rejects.toMatchObject({
    fault: "authority-unreachable",
    message: expect.stringContaining("resource_exhausted"),
  });
});

describe("a CA that never finishes the handshake of TLS", () => {
  test.each(["grpc", "connect"] as const)("is noticed, by %s", async (protocol) => {
    const hello = Promise.withResolvers<unknown>();
    const silent = createServer((socket) => void socket.once("data", hello.resolve));
    await once(silent.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void silent.close());
    const baseUrl = `https://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const files = {
      rootFile: join(folder, "root-cert.pem"),
      clientCertificate: undefined,
      serverName: undefined,
    };
    const known = { rootsFor, isWithdrawn };
    const channel = new CaChannel({ address: { protocol, baseUrl }, files }, () => now, known);
    onTestFinished(() => channel.reset());
    const ca = createClient(IstioCertificateService, await channel.transport());
    const ending = new AbortController();
    const calling = ca.createCertificate({}, { signal: ending.signal });
    await hello.promise;
    await eventually(() => expect(channel.isInHandshake()).toBe(true));
    ending.abort();
    await expect(calling).rejects.toMatchObject({ code: Code.Canceled });
    expect(channel.isInHandshake()).toBe(true);
    channel.reset();
    expect(channel.isInHandshake()).toBe(false);
  });

  test.each([
    [true, "[deadline_exceeded] it did not finish the TLS handshake in time: if something"],
    [false, "[deadline_exceeded] the operation timed out"],
  ])("is named after a time-out, with what to set: %s", async (isInHandshake, words) => {
    const transport = createRouterTransport(() => {});
    const channel = {
      transport: async () => transport,
      isInHandshake: () => isInHandshake,
      reset: () => {},
    };
    const ca = new CaClient(settings(), { channel, random: () => 0, log, pause: async () => {} });
    const send = async () => {
      throw new ConnectError("the operation timed out", Code.DeadlineExceeded);
    };
    const { signal } = new AbortController();
    const fault = await ca.call({ send, signal, trace }).catch((error: IssuanceError) => error);
    expect(fault).toMatchObject({
      fault: "authority-unreachable",
      message: expect.stringContaining(`no answer from the CA: ${words}`),
    });
    expect(fault.message.endsWith("set GODEBUG=tlsmlkem=0")).toBe(isInHandshake);
  });
});

test("reads the token and the roots anew for each call", async () => {
  const issue = await createCalls();
  await issue();
  await writeFile(join(folder, "token"), "d.e.f");
  await issue();
  const shown = calls.map(({ headers }) => headers.get("authorization"));
  expect(shown).toEqual(["Bearer a.b.c", "Bearer d.e.f"]);
  await writeFile(join(folder, "root-cert.pem"), (await createTestAuthority("stranger")).pem);
  expect(await issue()).toBe("authority-unreachable");
  await writeFile(join(folder, "root-cert.pem"), root.pem);
  expect(await issue()).toBe("answer-malformed");
  expect(calls).toHaveLength(3);
});

test("trusts the roots that it has learned in place of those in the file", async () => {
  const stranger = await createTestAuthority("stranger");
  await writeFile(join(folder, "root-cert.pem"), stranger.pem);
  rootsFor = ([file]) => (file?.issuer === "O=stranger" ? [root.certificate] : []);
  expect(await call()).toBe("answer-malformed");
  await writeFile(join(folder, "root-cert.pem"), root.pem);
  rootsFor = () => [stranger.certificate];
  expect(await call()).toBe("authority-unreachable");
});

test("makes eight calls at once, on one connection, and the others as these end", async () => {
  const answering = Promise.withResolvers<never>();
  answer = () => answering.promise;
  const issue = await createCalls();
  const all = Array.from({ length: 12 }, issue);
  await eventually(() => expect(calls.length).toBeGreaterThanOrEqual(8));
  for (let turn = 0; turn < 10; turn++) await setImmediate();
  expect([calls.length, connections]).toEqual([8, 1]);
  answer = () => [];
  answering.reject(new ConnectError("no", Code.PermissionDenied));
  await Promise.all(all);
  expect(calls).toHaveLength(12);
});

const [ownKey, otherKey] = [
  await generateSubjectKey({ kind: "EC", curve: "P-256" }),
  await generateSubjectKey({ kind: "EC", curve: "P-256" }),
];

describe("a provisioned certificate", () => {
  const shows = async (from: number, until: number, shown = ownKey) => {
    const at = (days: number): Date => new Date(Date.now() + days * day);
    const validity = { notBefore: at(from), notAfter: at(until) };
    await writeFile(join(folder, "key.pem"), privateKeyPem(shown.privateKey, true));
    const pem = await root.issue(spiffeId, ownKey.publicKey, validity);
    await writeFile(join(folder, "cert-chain.pem"), pem + root.pem);
    await call();
    return calls.at(-1)?.peer;
  };

  test("is shown while it is of use", async () => {
    expect(await shows(-1, 1)).toBe(`URI:${spiffeId}`);
  });

  test.each<[string, Parameters<typeof shows>]>([
    ["has expired", [-2, -1]],
    ["is not valid yet", [1, 2]],
    ["is of another key", [-1, 1, otherKey]],
  ])("is not shown if it %s: the token alone would do", async (_, how) => {
    expect(await shows(...how)).toBe("");
  });

  test("is not shown once it is withdrawn", async () => {
    isWithdrawn = (leaf, others) =>
      leaf.subjectAltName === `URI:${spiffeId}` && others[0]?.issuer === "O=root";
    expect(await shows(-1, 1)).toBe("");
  });
});

test("says that no connection opened where it refuses the server's certificate itself", async () => {
  const failed = async (...client: Parameters<typeof createIssue>): Promise<string> =>
    (await createIssue(...client))().then(() => "issued", String);
  for (const name of ["istiod.evil.svc", "10.9.8.7"])
    expect(await failed({}, name)).toMatch(/no connection to the CA: .*ALTNAME_INVALID/);
  await writeFile(join(folder, "root-cert.pem"), (await createTestAuthority("stranger")).pem);
  expect(await failed()).toMatch(/no connection to the CA: .*(?:SELF_SIGNED|UNABLE_TO_)/);
  expect(calls).toEqual([]);
});

test("a failed call resets the connection, and one that the agent ended is no outage", async () => {
  let resets = 0;
  let sent = 0;
  const channel = {
    transport: async () => createRouterTransport(() => {}),
    isInHandshake: () => false,
    reset: () => void resets++,
  };
  const ca = new CaClient(settings(), { channel, random: () => 0, log, pause: async () => {} });
  const attempts = async (code: Code) => {
    const ended = new AbortController();
    sent = 0;
    const send = async () => {
      sent++;
      if (code === Code.Canceled) ended.abort();
      throw new ConnectError("away", code);
    };
    await expect(ca.call({ send, signal: ended.signal, trace })).rejects.toThrow();
    return sent;
  };
  expect(await attempts(Code.Canceled)).toBe(1);
  expect(await attempts(Code.Unavailable)).toBe(5);
  expect(await attempts(Code.Unavailable)).toBe(1);
  expect(resets).toBe(3);
});
