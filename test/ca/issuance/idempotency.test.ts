import { X509Certificate } from "node:crypto";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { type IssuedCertificates, idempotentOver } from "../../../src/ca/issuance/idempotency.ts";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import type { Quotas } from "../../../src/ca/issuance/quotas.ts";
import { recordingIn } from "../../../src/ca/issuance/record-issuance.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import type { CertificateAsk } from "../../../src/node/gateway/certificate-source.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { issueFor } from "../../testkit/ca/issue-for-signer.ts";
import { revokeCertificates } from "../../testkit/ca/revoke-certificates.ts";
import { demandedLog, type RunningCa } from "../../testkit/ca/running-ca.ts";
import { propagation, refresh, startSigningCa, taint } from "../../testkit/ca/tainted-ca.ts";
import { tokenIssuerWithoutKeys } from "../../testkit/callers/token-issuers.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const [{ csrPem }, other] = [await createWorkload(), await createWorkload()];
const metadata = { ImpersonatedIdentity: "spiffe://cluster.local/ns/foo/sa/bar" };
const elsewhere = { metadata: { ImpersonatedIdentity: "spiffe://cluster.local/ns/a/sa/b" } };
const asked: CertificateAsk = { csrPem, metadata, request: "uid-1" };

const serialOf = ([leafPem = ""]: readonly string[]): string =>
  new X509Certificate(leafPem).serialNumber;

/** Issued certificates in memory, which a test may change. */
function issuedInMemory(stored: Map<string, Bytes> = new Map()) {
  const read = async (name: string) => stored.get(name);
  const create: IssuedCertificates["create"] = async (name, der, stale) => {
    const found = stored.get(name);
    if (!found || (stale && Bytes.equal(found, stale))) stored.set(name, der);
    return stored.get(name);
  };
  return { stored, read, create };
}

/** A log that counts the certificates in it, by their serial numbers. */
function countingLog(step: () => void = () => {}) {
  const logged: string[] = [];
  const issuanceLog = demandedLog(async (entry) => {
    step();
    const der = LogEntry.certificateOf(LogEntry.parse(entry)) ?? "";
    logged.push(new X509Certificate(der).serialNumber);
    step();
    return { origin: "log.test", index: logged.length - 1 };
  });
  return { logged, issuanceLog };
}

describe("a request that a signer repeats", () => {
  let ca: RunningCa;
  let issued: ReturnType<typeof issuedInMemory>;
  let logged: string[];
  let fault: Error | undefined;
  /** The next read of the store waits for it. */
  let held: Promise<void> | undefined;
  let charges: number;

  beforeEach(async () => {
    issued = issuedInMemory();
    charges = 0;
    fault = undefined;
    const log = countingLog(() => {
      const next = fault;
      fault = undefined;
      if (next) throw next;
    });
    logged = log.logged;
    const quotas: Quotas = {
      caller: () => 0,
      issuer: () => {
        charges++;
        return 0;
      },
    };
    const read: typeof issued.read = async (name) => {
      const before = held;
      held = undefined;
      await before;
      return issued.read(name);
    };
    const idempotency = idempotentOver({ ...issued, read });
    ca = await startSigningCa({}, { idempotency, quotas, issuanceLog: log.issuanceLog });
  });

  const ask = (changes: Partial<CertificateAsk> = {}, issuer?: string, signer?: string) =>
    issueFor(ca, { ...asked, ...changes }, issuer, signer);

  const serving = (...DnsNames: string[]) => ({ metadata: { CertSigner: "serving", DnsNames } });

  test("gets the same certificate, which is logged and charged once", async () => {
    const first = await ask();
    ca.pass(3000);
    expect(await ask()).toEqual(first);
    const at = ca.now();
    expect(await Promise.all([ask(), ask()])).toEqual([first, first]);
    expect([logged, charges, ca.now()]).toEqual([[serialOf(first)], 1, at]);
  });

  test("gets the same intermediate", async () => {
    const intermediate = { metadata: { CertSigner: "intermediate" } } as const;
    expect(await ask(intermediate)).toEqual(await ask(intermediate));
    expect(logged).toHaveLength(1);
  });

  test.each<[string, Partial<CertificateAsk>, string?, string?]>([
    ["another key", { csrPem: other.csrPem }],
    ["another UID", { request: "uid-2" }],
    ["no UID", { request: undefined }],
    ["a UID that is too long", { request: "u".repeat(129) }],
    ["another identity", elsewhere],
    ["another product", serving("a.foo.svc")],
    ["another lifetime", { requestedSeconds: 4000 }],
    ["another cluster", {}, "https://b.test"],
    ["another signer of the cluster", {}, "https://a.test", "second-signer"],
  ])("is another request with %s", async (_, changes, issuer, signer) => {
    const first = await ask();
    const second = await ask(changes, issuer, signer);
    expect(serialOf(second)).not.toBe(serialOf(first));
    expect([logged.length, charges]).toEqual([2, 2]);
    expect(await ask()).toEqual(first);
  });

  test("is another request with other names", async () => {
    const [one, two] = [await ask(serving("a.foo.svc")), await ask(serving("b.foo.svc"))];
    expect(serialOf(two)).not.toBe(serialOf(one));
    expect(await ask(serving("a.foo.svc"))).toEqual(one);
  });

  test.each<[string, Partial<CertificateAsk>]>([
    ["identity", elsewhere],
    ["product", serving("a.foo.svc")],
  ])("gets no stored certificate of another %s", async (_, changes) => {
    const [first, second] = [await ask(), await ask(changes)];
    const [[one, ofFirst] = [], [two, ofSecond] = []] = [...issued.stored];
    if (!(one && two && ofFirst && ofSecond)) throw new Error("two are not stored");
    issued.stored.set(one, ofSecond).set(two, ofFirst);
    const again = [await ask(), await ask(changes)].map(serialOf);
    expect(new Set([first, second].map(serialOf).concat(again)).size).toBe(4);
  });

  test("gets another certificate an hour later, or once that is revoked", async () => {
    const first = await ask();
    ca.pass(3600);
    const second = await ask();
    await revokeCertificates(
      { certificateAuthority: ca.certificateAuthority, mint: ca.mint },
      [serialOf(second)],
      ca.now(),
    );
    ca.pass(refresh);
    const third = await ask();
    expect(logged).toEqual([first, second, third].map(serialOf));
    expect(await ask()).toEqual(third);
  });

  test("gets another one after the middle of a short life", async () => {
    const first = await ask({ requestedSeconds: 1200 });
    ca.pass(700);
    expect(serialOf(await ask({ requestedSeconds: 1200 }))).not.toBe(serialOf(first));
  });

  test("gets none once a denial is in force", async () => {
    await ask();
    const subject = "ns/foo/sa/bar";
    const denial = { subject, knownFrom: ca.now() };
    await ca.mint.store.put(await Statement.seal("denial", denial, ca.mint));
    ca.pass(refresh);
    expect(await refusalOf(() => ask())).toMatchObject({ reason: "denied", subject });
  });

  test("gets one of the successor once its authority was withdrawn", async () => {
    const first = await ask();
    await taint(ca, "immediately");
    ca.pass(propagation);
    const second = await ask();
    expect(serialOf(second)).not.toBe(serialOf(first));
    expect(await ask()).toEqual(second);
  });

  test("is logged once the log takes it, with the serial number that it had, and waits for one that fails", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    held = promise;
    const both = Promise.allSettled([ask(), ask()]);
    // By its answer, both calls before it are under way.
    const elsewhere = await ask({ request: "uid-2" });
    fault = new CaError({ reason: "log-unavailable", why: "full" }, "full");
    resolve();
    const settled = await both;
    const chain = await ask();
    expect(settled.toSorted((a, b) => (a.status < b.status ? -1 : 1))).toMatchObject([
      { status: "fulfilled", value: chain },
      { status: "rejected", reason: { refusal: { reason: "log-unavailable" } } },
    ]);
    const serials = [elsewhere, chain].map(serialOf);
    expect([logged, charges]).toEqual([serials, 2]);
    expect([...issued.stored.values()].map((der) => new X509Certificate(der).serialNumber)).toEqual(
      serials,
    );
    for (const name of issued.stored.keys()) expect(name).toMatch(/^[0-9a-f]{32}\/[0-9a-f]{64}$/);
  });

  test("gets nothing that somebody put into the store", async () => {
    const first = await ask();
    const second = await ask({ csrPem: other.csrPem });
    const [[name = ""], [, foreign]] = [...issued.stored] as [[string], [string, Bytes]];
    const damaged = (issued.stored.get(name) ?? new Uint8Array()).slice();
    damaged[damaged.length - 1] = 1 ^ (damaged.at(-1) ?? 0);
    for (const planted of [foreign, damaged, new Uint8Array(), new Uint8Array([0x30, 0])]) {
      issued.stored.set(name, planted);
      const chain = await ask();
      for (const each of [first, second]) expect(serialOf(chain)).not.toBe(serialOf(each));
      expect(await ask()).toEqual(chain);
    }
  });
});

test("a UID is the business of a cluster's signers alone", () => {
  const issueOnce = idempotentOver(issuedInMemory())({
    isRevoked: async () => false,
    cryptoProvider: nodeCryptoProvider,
  });
  const issuer = tokenIssuerWithoutKeys("https://a.test", { clusterSigner: () => undefined });
  for (const caller of [{}, { issuer }] as never[])
    expect(issueOnce(caller, { csrPem, metadata: { RequestUid: "uid-1" } })).toBeUndefined();
});

/** A process that was killed: what it had begun goes no further. */
class Killed extends Error {}

test("a request has one certificate, wherever signers and CAs are killed, and however they race", async () => {
  const ca = await startSigningCa();
  const kills = fc.array(fc.record({ signer: fc.nat(1), ca: fc.nat(1), step: fc.nat(7) }), {
    maxLength: 12,
  });
  const play = async (plays: { signer: number; ca: number; step: number }[]) => {
    const { stored } = issuedInMemory();
    const status = new Set<string>();
    const answered = new Set<string>();
    let step = (): void => {};
    const log = countingLog(() => step());
    const process = () => {
      const memory = issuedInMemory(stored);
      const idempotency = idempotentOver({
        ...memory,
        read: async (name) => {
          step();
          return memory.read(name);
        },
        create: async (...certificate) => {
          step();
          const kept = await memory.create(...certificate);
          step();
          return kept;
        },
      })({ isRevoked: async () => false, cryptoProvider: nodeCryptoProvider });
      const issuanceLog = recordingIn(log.issuanceLog);
      const issuance = { ...ca.certificateAuthority.issuance, idempotency, issuanceLog };
      return { ...ca, certificateAuthority: { ...ca.certificateAuthority, issuance } };
    };
    const cas = [process(), process()];
    const attempt = async (by: number, killedAt: number): Promise<void> => {
      let steps = 0;
      step = () => {
        if (steps++ === killedAt) throw new Killed();
      };
      const chain = await issueFor(cas[by] ?? ca, asked);
      answered.add(serialOf(chain));
      // Killed between the answer and the status, before or after the write.
      step();
      status.add(serialOf(chain));
      step();
    };
    for (const each of plays) {
      await attempt(each.ca, each.step).catch(() => {
        // Which process was killed, the CA or the signer, is the same to the request: both begin anew.
        cas[each.ca] = process();
      });
    }
    step = () => {};
    const race = [0, 1, 0].map((by) => issueFor(cas[by] ?? ca, asked));
    for (const chain of await Promise.all(race)) answered.add(serialOf(chain));
    expect(answered.size).toBe(1);
    expect(new Set(log.logged)).toEqual(answered);
    for (const each of status) expect(answered).toContain(each);
  };
  // Without a kill, nothing is stored before the race.
  await fc.assert(fc.asyncProperty(kills, play), { numRuns: 30, examples: [[[]]] });
});
