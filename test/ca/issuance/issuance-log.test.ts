import { describe, expect, test } from "vitest";
import { claimPathText } from "../../../src/authn/subject-claims.ts";
import type { AuthorityView } from "../../../src/ca/authority-view.ts";
import type { AuditEvent } from "../../../src/ca/issuance/audit-event.ts";
import type { AppendOnlyLog, LogMode } from "../../../src/ca/issuance/issuance-log.ts";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import { recordingIn } from "../../../src/ca/issuance/record-issuance.ts";
import { Mint } from "../../../src/ca/mint.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { LogError } from "../../../src/tlog/log-error.ts";
import { bearer, callWithClient, grpcWeb } from "../../contract/rpc-calls.ts";
import { issuerTables, origin } from "../../contract/service-under-test.ts";
import { demandedLog, serviceOf, startCa } from "../../testkit/ca/running-ca.ts";
import { issueLeaf } from "../../testkit/ca/tainted-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { tokenEntry } from "../../testkit/log/token-entry.ts";
import { clusterLocal, proved, workload } from "../../testkit/pki/certificates.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const key = await createTokenKey("ES256", "k1");
const ISSUERS = [{ ...issuerTables.cluster, jwks: jwksOf(key) }];
const { csrPem: csr } = await createWorkload();

async function startLogging(
  append: AppendOnlyLog["append"],
  mode: LogMode = "required",
  values = {},
) {
  const issuanceLog = { ...demandedLog(append), mode };
  const ca = await startCa({ ISSUERS, ...values }, { issuanceLog, hasNoNamesake: true });
  await ca.found();
  const service = serviceOf(ca, key);
  const ask = async (metadata = {}) =>
    callWithClient(grpcWeb, service, { csr, metadata }, await bearer(service));
  return { ask, takeAudits: service.takeAudits, ca };
}

const failing: AppendOnlyLog["append"] = async () => {
  throw new Error("disk I/O error");
};

test("answers no certificate that could not be logged, and asks the caller to try again", async () => {
  const { ask, takeAudits } = await startLogging(failing);
  expect(await ask()).toEqual({
    code: "Unavailable",
    message: "certificate authority is temporarily unavailable",
  });
  expect(takeAudits()).toEqual([
    expect.objectContaining({
      outcome: "refused",
      reason: "log-unavailable",
      detail: "the issuance log: disk I/O error",
      log: "unlogged",
      serialNumber: expect.any(String),
    }),
  ]);
});

test("answers it by best effort, and leaves the whole entry in the audit trail", async () => {
  const { ask, takeAudits } = await startLogging(failing, "best-effort");
  expect(await ask()).toHaveProperty("certChain");
  const [audit] = takeAudits();
  expect(audit).toMatchObject({ outcome: "issued", log: "unlogged" });
  const { logEntry } = audit ?? {};
  const entry = LogEntry.parse(Buffer.from(String(logEntry), "base64"));
  expect(entry).toMatchObject({ proof: "token", cluster: "Kubernetes" });
});

test("signs and logs nothing for a caller that has gone", async () => {
  let entries = 0;
  const { ca } = await startLogging(async () => ({ origin: "log", index: entries++ }));
  const signal = AbortSignal.abort();
  expect(await refusalOf(() => issueLeaf(ca, 0, signal))).toEqual({ reason: "request-abandoned" });
  expect(entries).toBe(0);
  await issueLeaf(ca);
  expect(entries).toBe(1);
});

test("logs the signer that was asked for, where a rule chooses another one", async () => {
  const signers: (string | undefined)[][] = [];
  const append: AppendOnlyLog["append"] = async (octets) => {
    const { signer, certSigner } = LogEntry.parse(octets);
    return { origin: "log", index: signers.push([signer, certSigner]) };
  };
  const callers = [{ issuer: issuerTables.cluster.issuer }];
  const { ask, ca } = await startLogging(append, "required", {
    MAX_WORKLOAD_CERT_TTL: "1h",
    DEFAULT_WORKLOAD_CERT_TTL: "1h",
    SIGNERS: ["a", "b"].map((name) => ({ name, inception_date: "2026-11-21", callers })),
    POLICY: { rules: [{ name: "all", then: { signer: "a" } }] },
  });
  await ca.rotate();
  ca.pass(3601);
  for (const asked of [{}, { CertSigner: "b" }, { CertSigner: "a" }])
    expect(await ask(asked)).toHaveProperty("certChain");
  expect(signers).toEqual([
    ["a", ""],
    ["a", "b"],
    ["a", undefined],
  ]);
});

test("waits for the log before it answers", async () => {
  const appended = Promise.withResolvers<{ origin: string; index: number }>();
  const begun = Promise.withResolvers<void>();
  const { ask } = await startLogging(() => {
    begun.resolve();
    return appended.promise;
  });
  let isAnswered = false;
  const answer = ask().then(() => {
    isAnswered = true;
  });
  await begun.promise;
  expect(isAnswered).toBe(false);
  appended.resolve({ origin: "log", index: 7 });
  await answer;
});

test("brings every CA certificate that the mesh trusts with an entry, also one that signs nothing", async () => {
  const logged: string[][] = [];
  const { ask, ca } = await startLogging(async (_entry, _signal, authorities = []) => {
    logged.push(
      authorities.map(({ entry }) => {
        const logged = LogEntry.parse(entry);
        const { proof, at } = logged;
        expect({ proof, at }).toEqual({ proof: "authority", at: ca.now().toISOString() });
        return Buffer.from(LogEntry.certificateOf(logged) ?? []).toString("base64");
      }),
    );
    return { origin: "log", index: 0 };
  });
  await ask();
  const { trustBundle, issuer } = await ca.certificateAuthority.issuance.authorities.at(ca.now());
  expect(logged).toEqual([trustBundle.roots.map((root) => Buffer.from(root).toString("base64"))]);
  await Mint.mintAuthority(ca.mint, Schedule.joining(ca.mint.phaseLengths, ca.now()));
  ca.pass(120);
  await ask();
  await ask();
  const after = await ca.certificateAuthority.issuance.authorities.at(ca.now());
  expect(after.issuer?.authority.id).toBe(issuer?.authority.id);
  expect(after.trustBundle.roots).toHaveLength(2);
  expect(logged.slice(1)).toEqual([
    after.trustBundle.roots.map((root) => Buffer.from(root).toString("base64")),
    logged[1],
  ]);
});

test("a log that is too busy refuses with its own reason", async () => {
  const { ask, takeAudits } = await startLogging(async () => {
    throw new CaError({ reason: "too-many-waiting" }, "busy");
  });
  await ask();
  expect(takeAudits()).toMatchObject([{ reason: "too-many-waiting", log: "unlogged" }]);
});

test("has no routes of a log without one", async () => {
  const { app } = await startCa({ ISSUERS });
  for (const path of ["logs.json", "0/checkpoint", "0/tile/0/000"]) {
    expect((await app.request(`${origin}/log/${path}`)).status).toBe(404);
  }
});

describe("an entry", () => {
  const entry: LogEntry = {
    kind: "certificate",
    certificate: Uint8Array.of(1, 2, 3),
    at: "2026-11-21T12:00:00.250Z",
    proof: "forwarded",
    provedAt: "2026-11-21T11:00:00.000Z",
    gateway: "spiffe://cluster.local/ns/a/sa/gateway",
    pod: { name: "p", uid: "u" },
    node: { name: "n" },
  };
  const octets = LogEntry.format(entry);

  test("reads back", () => {
    expect(LogEntry.parse(octets)).toEqual(entry);
  });

  test("is of version 1, which older readers know, where it needs nothing of version 2", () => {
    expect([...octets.subarray(0, 6)]).toEqual([1, 0, 3, 1, 2, 3]);
    expect(new TextDecoder().decode(octets.subarray(6))).toMatch(/^{"at":/);
  });

  test.each<[string, LogEntry]>([
    ["a rule and a policy", { ...entry, rule: "nodes", policy: "ab".repeat(32) }],
    ["a requested life", { ...entry, requestedSeconds: 600 }],
    ["a token", tokenEntry({ requestedSeconds: 60, rule: "cloud" })],
  ])("reads back in version 2 with %s", (_, entry) => {
    const octets = LogEntry.format(entry);
    expect(octets[0]).toBe(2);
    expect(LogEntry.parse(octets)).toEqual(entry);
  });

  const secondWith = (json: unknown, certificate: number[] = []): Uint8Array =>
    Uint8Array.of(
      ...[2, 0, certificate.length, ...certificate],
      ...new TextEncoder().encode(JSON.stringify(json)),
    );

  test.each([
    ["a kind that nobody knows", secondWith({ ...tokenEntry(), kind: "secret" })],
    ["no kind", secondWith({ at: entry.at, proof: "token" }, [1])],
    ["a token that has a certificate", secondWith(tokenEntry(), [1])],
    ["a token without what it says", secondWith({ ...tokenEntry(), token: undefined })],
    ["a certificate that has a token", secondWith({ ...tokenEntry(), kind: "certificate" }, [1])],
    ["a token for nobody", secondWith(tokenEntry({}, { audiences: [] }))],
    ["a token whose id is no serial number", secondWith(tokenEntry({}, { jti: "01" }))],
    ["the signature of a token", secondWith(tokenEntry({}, { signature: "x" } as object))],
    ["the hash of no policy", secondWith(tokenEntry({ policy: "AB" }))],
    ["a life below none", secondWith(tokenEntry({ requestedSeconds: -1 }))],
  ])("of version 2 is refused with %s", (_, bad) => {
    expect(() => LogEntry.parse(bad)).toThrow(LogError);
  });

  const withJson = (json: string): Uint8Array => {
    const head = octets.subarray(0, 6);
    return new Uint8Array(Buffer.concat([head, Buffer.from(json)]));
  };

  test.each([
    ["nothing", new Uint8Array()],
    ["another version", Uint8Array.of(3, ...octets.slice(1))],
    ["a certificate that is cut off", octets.slice(0, 5)],
    ["no JSON", octets.slice(0, 6)],
    ["other JSON", withJson("[]")],
    ["an unknown field", withJson('{"at":"2026-11-21T12:00:00.250Z","proof":"token","x":1}')],
    ["an unknown proof", withJson('{"at":"2026-11-21T12:00:00.250Z","proof":"trust me"}')],
    ["no instant", withJson('{"proof":"token"}')],
    ["text that is no UTF-8", Uint8Array.of(...octets, 0xff)],
  ])("is refused with %s", (_, bad) => {
    expect(() => LogEntry.parse(bad)).toThrow(LogError);
  });
});

describe("the entry of a token that is no ServiceAccount's", () => {
  const claimed: LogEntry = {
    ...tokenEntry(),
    tokenSubject: { sub: "repo:a/b:ref:c", entry: "deploy", claims: { repository_id: "74" } },
  };

  test("is of version 3, and survives being written and read", () => {
    for (const tokenSubject of [claimed.tokenSubject, "unknown"] as const) {
      const octets = LogEntry.format({ ...claimed, tokenSubject });
      expect(octets[0]).toBe(3);
      expect(LogEntry.parse(octets)).toEqual({ ...claimed, tokenSubject });
    }
  });

  test("has every path of a claim as a name, and lists", () => {
    const names = ["https://sts.amazonaws.com/", "a b", "ÄÖ", "1"].map((name) =>
      claimPathText([name, "aws_account"]),
    );
    const claims = Object.fromEntries(names.map((name) => [name, ["a", "b"]]));
    const entry = { ...claimed, tokenSubject: { sub: "a", entry: "b", claims } };
    expect(LogEntry.parse(LogEntry.format(entry))).toEqual(entry);
  });

  test("leaves the others in the versions that older readers know", () => {
    expect(LogEntry.format(tokenEntry())[0]).toBe(2);
  });

  test.each([1, 2, 4])("is none of version %i", (version) => {
    const octets = LogEntry.format(claimed);
    octets[0] = version;
    expect(() => LogEntry.parse(octets)).toThrow(LogError);
  });

  test("is none of version 3 without its subject, or with other members", () => {
    const octets = LogEntry.format(tokenEntry());
    octets[0] = 3;
    expect(() => LogEntry.parse(octets)).toThrow(LogError);
    const tokenSubject = { sub: "a", entry: "b", claims: { c: 7 } };
    const other = LogEntry.format({ ...claimed, tokenSubject } as unknown as LogEntry);
    expect(() => LogEntry.parse(other)).toThrow(LogError);
  });
});

const octets = (text: string): Bytes => new TextEncoder().encode(text) as Bytes;

const recording = (root: string, intermediate: string) => ({
  view: {
    trustBundle: { roots: [octets(root)], pem: "" },
    issuer: { authority: { intermediates: [octets(intermediate)] } },
  } as unknown as AuthorityView,
  signal: new AbortController().signal,
  audit: { event: "create-certificate", outcome: "issued", requestId: "1" } as AuditEvent,
});

const recordingTo = (append: (...entry: Parameters<AppendOnlyLog["append"]>) => void) =>
  recordingIn(
    demandedLog(async (...entry) => {
      append(...entry);
      return { origin: "log", index: 0 };
    }),
  );

test("brings the intermediates of who signs with an entry, and those of its successor", async () => {
  const logged: string[][] = [];
  const log = recordingTo((_entry, _signal, authorities = []) => {
    const certificates = authorities.map(({ entry }) =>
      LogEntry.certificateOf(LogEntry.parse(entry)),
    );
    logged.push(certificates.map((each) => new TextDecoder().decode(each)));
  });
  const [first, second] = [recording("root", "below 1"), recording("root", "below 2")];
  const own = { certificate: octets("own"), at: new Date() };
  for (const each of [first, second, first]) await log.record(own, each);
  expect(logged).toEqual([
    ["root", "below 1"],
    ["root", "below 2"],
    ["root", "below 1"],
  ]);
});

test("logs the certificate that proves a caller, and the gateway that forwards it", async () => {
  const entries: LogEntry[] = [];
  const callerOf = (name: string) => ({
    spiffeId: workload("mesh", name, clusterLocal),
    account: { namespace: "mesh", name },
    proof: proved,
  });
  const certificate = { serialNumber: "01", authority: "02" };
  const caller = { ...callerOf("cart"), certificate, gateway: callerOf("gateway") };
  const issued = { at: new Date(), certificate: octets("leaf"), spiffeId: caller.spiffeId };
  const log = recordingTo((entry) => entries.push(LogEntry.parse(entry)));
  await log.record({ ...issued, caller, holder: caller }, recording("root", "below"));
  expect(entries).toMatchObject([
    {
      proof: "forwarded",
      callerSerialNumber: "01",
      callerAuthority: "02",
      gateway: "spiffe://cluster.local/ns/mesh/sa/gateway",
      provedAt: proved.provedAt.toISOString(),
    },
  ]);
});
