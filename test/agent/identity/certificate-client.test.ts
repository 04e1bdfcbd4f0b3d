import { writeFile } from "node:fs/promises";
import { createSecureServer, type Http2ServerRequest } from "node:http2";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import {
  clientCertificateIn,
  type RequestSettings,
} from "../../../src/agent/configuration/ca-settings.ts";
import { CaChannel } from "../../../src/agent/identity/ca-channel.ts";
import { CaClient, issueThrough } from "../../../src/agent/identity/ca-client.ts";
import {
  generateSubjectKey,
  IssuanceError,
  privateKeyPem,
} from "../../../src/agent/identity/x509-svid.ts";
import { AgentMetrics } from "../../../src/agent/status/metrics.ts";
import { newTrace } from "../../../src/foundation/headers.ts";
import {
  type IstioCertificateRequest,
  IstioCertificateService,
} from "../../../src/gen/istio/v1/auth/ca_pb.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { workload } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
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
let answer: (call: Call) => readonly string[] | ConnectError | Promise<never>;

beforeEach(async () => {
  folder = await temporaryFolder();
  metrics = new AgentMetrics();
  calls = [];
  peers = [];
  answer = () => ["foo", "bar"];
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
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const settings = (): RequestSettings => ({
  key: { kind: "EC", curve: "P-256" },
  lifetimeSeconds: 86_400,
  tokenFile: join(folder, "token"),
  clusterId: "Kubernetes",
  certSigner: "",
  purpose: "identity",
  headers: { "X-Team": "blue" },
  attemptTimeoutMilliseconds: hangMilliseconds,
  impersonates: false,
});

const trace = newTrace();
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
  const channel = new CaChannel(
    { address, files },
    () => now,
    (file) => file,
  );
  const used = { ...settings(), ...changes };
  const ca = new CaClient(used, { channel, random: () => 0, log });
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
  const countOf = (name: string): string | undefined =>
    new RegExp(`^istio_agent_${name}\\{request_type="csr"\\} (\\d+)`, "m").exec(text)?.[1];
  expect(countOf("num_outgoing_requests")).toBe("2");
  expect(countOf("num_failed_outgoing_requests")).toBe("2");
  expect(countOf("num_outgoing_retries")).toBe("4");
});

test("sends what pilot-agent sends, over native gRPC and TLS", async () => {
  await call();
  const [{ request, headers } = { request: undefined, headers: new Headers() }] = calls;
  expect(request).toMatchObject({ validityDuration: 86_400n, metadata: { CertSigner: "" } });
  expect(headers.get("authorization")).toBe("Bearer a.b.c");
  expect(headers.get("clusterid")).toBe("Kubernetes");
  expect(headers.get("x-team")).toBe("blue");
  expect(headers.get("x-retry-attempt")).toBeNull();
});

test("logs the trace of a call that has no token", async () => {
  await call({ tokenFile: join(folder, "nowhere") });
  const { traceId, spanId } = trace;
  expect(log.operations).toMatchObject([{ event: "token-missing", traceId, spanId }]);
});

test("sends the trace with every attempt, and logs it with every failure", async () => {
  answer = () => new ConnectError("away", Code.Unavailable);
  await call();
  const { traceId, spanId } = trace;
  const sent = new Set(calls.map(({ headers }) => headers.get("traceparent")));
  expect([...sent]).toEqual([`00-${traceId}-${spanId}-00`]);
  expect(log.operations).toHaveLength(4);
  for (const line of log.operations) {
    expect(line).toMatchObject({ event: "csr-retried", code: "Unavailable", traceId, spanId });
  }
});

test.each(["", "# no root yet\n"])("refuses a root file whose content is %j", async (text) => {
  // Node takes an empty list of roots for the roots of the system.
  await writeFile(join(folder, "root-cert.pem"), text);
  expect(await call()).toBe("authority-unreachable");
  expect(calls).toEqual([]);
});

test("as a node proxy names the workload, and no signer", async () => {
  await call({ impersonates: true });
  expect(calls[0]?.request.metadata).toEqual({ ImpersonatedIdentity: spiffeId });
});

// Istio's client accepts ["foo", "bar"].
test.each<[readonly string[], string]>([
  [["foo", "bar"], "answer-malformed"],
  [[], "answer-empty"],
  [["foo"], "answer-empty"],
])("refuses the answer %j", async (chain, fault) => {
  answer = () => chain;
  expect(await call()).toBe(fault);
  expect(calls).toHaveLength(1);
});

test("makes five attempts after a retryable code, and numbers them", async () => {
  answer = () => new ConnectError("away", Code.Unavailable);
  expect(await call()).toBe("authority-unreachable");
  expect(calls.map(({ headers }) => headers.get("x-retry-attempt"))).toEqual([
    null,
    "1",
    "2",
    "3",
    "4",
  ]);
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

test.each([
  [Code.Canceled, 2],
  [Code.DeadlineExceeded, 2],
  [Code.ResourceExhausted, 2],
  [Code.Aborted, 2],
  [Code.Internal, 2],
  [Code.Unavailable, 2],
  [Code.Unauthenticated, 1],
  [Code.PermissionDenied, 1],
  [Code.InvalidArgument, 1],
  [Code.Unknown, 1],
  [Code.Unimplemented, 1],
])("after the code %d makes %d attempts", async (code, attempts) => {
  answer = () => (calls.length === 1 ? new ConnectError("no", code) : []);
  await call();
  expect(calls).toHaveLength(attempts);
});

const waiting = (value: string, code = Code.ResourceExhausted) =>
  new ConnectError("later", code, { "retry-after": value });

test.each([
  ["1", Code.ResourceExhausted, 1],
  ["7", Code.Unavailable, 7],
  ["99999", Code.Unavailable, 99_999],
])("waits for %s seconds if the CA asks for it with the code %d", async (value, code, seconds) => {
  answer = () => waiting(value, code);
  const wait = await (await createIssue())().catch(
    (error: IssuanceError) => error.retryAfterSeconds,
  );
  expect(wait).toBe(seconds);
  expect(calls).toHaveLength(1);
});

test.each(["0", "-7", "soon", "1e3", "1.5", "100000", "9".repeat(99)])(
  "tries again at once if the CA asks for a wait of %s",
  async (value) => {
    answer = () => (calls.length === 1 ? waiting(value) : []);
    expect(await call()).toBe("answer-empty");
    expect(calls).toHaveLength(2);
  },
);

test("waits for nothing after a refusal for good", async () => {
  answer = () => waiting("7", Code.PermissionDenied);
  await expect((await createIssue())()).rejects.toMatchObject({ retryAfterSeconds: 0 });
  expect(calls).toHaveLength(1);
});

test("gives up on a CA that never answers", async () => {
  answer = () => new Promise<never>(() => undefined);
  expect(await call({ attemptTimeoutMilliseconds: 20 })).toBe("authority-unreachable");
});

test("sends no cluster if it is in none", async () => {
  await call({ clusterId: "" });
  expect(calls[0]?.headers.get("clusterid")).toBeNull();
});

test("sends no authorization header if the token file is empty", async () => {
  await writeFile(join(folder, "token"), " \n");
  await call();
  expect(calls[0]?.headers.get("authorization")).toBeNull();
});

test("refuses a token file whose content cannot be a token", async () => {
  await writeFile(join(folder, "token"), "two words");
  expect(await call()).toBe("token-unusable");
  expect(calls).toEqual([]);
});

test("shows a provisioned certificate until it expires", async () => {
  const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
  await writeFile(join(folder, "key.pem"), privateKeyPem(key.privateKey, true));
  await writeFile(join(folder, "cert-chain.pem"), await root.issue(spiffeId, key.publicKey, real));
  await call();
  expect(calls[0]?.peer).toBe(`URI:${spiffeId}`);
  const past = { notBefore: new Date(0), notAfter: new Date(day) };
  await writeFile(join(folder, "cert-chain.pem"), await root.issue(spiffeId, key.publicKey, past));
  await call();
  expect(calls[1]?.peer).toBe("");
});

test("refuses a server with another name, or under another root", async () => {
  expect(await call({}, "istiod.evil.svc")).toBe("authority-unreachable");
  await writeFile(join(folder, "root-cert.pem"), (await createTestAuthority("stranger")).pem);
  expect(await call()).toBe("authority-unreachable");
  expect(calls).toEqual([]);
});

test("calls no server while its root file is empty", async () => {
  await writeFile(join(folder, "root-cert.pem"), "");
  expect(await call()).toBe("authority-unreachable");
  expect(calls).toEqual([]);
});
