import "reflect-metadata/lite";
import { X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { describe, expect, test } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { askUpstream } from "../../../src/ca/rotation/ask-upstream.ts";
import { NextStep } from "../../../src/ca/rotation/next-step.ts";
import {
  type UpstreamAuthority,
  UpstreamError,
  UpstreamProtocol,
} from "../../../src/ca/upstream-authority.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import type { CryptoProvider } from "../../../src/pki/crypto-provider.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import {
  decideTaint,
  issueLeaf,
  openStore,
  readiness,
  signerOf,
  taint,
} from "../../testkit/ca/tainted-ca.ts";
import {
  startUpstream,
  text,
  type UpstreamServer,
  vault,
} from "../../testkit/network/upstream-server.ts";
import { createCa } from "../../testkit/pki/plugged-in.ts";

const day = 86_400;
const [leaf, propagation] = [10 * day, 600];
const root = await createCa("O=company,CN=root");
const nextRoot = await createCa("O=company,CN=next root");
const secret = "hvs.secret-of-the-upstream";

const clock: { now: () => Date } = { now: () => new Date() };
const nowOfCa = () => clock.now();

async function start(
  upstream: UpstreamServer,
  values: object = {},
  cryptoProvider: CryptoProvider = webCryptoProvider,
): Promise<RunningCa> {
  const configuration = {
    AUTHORITY_ROOT: "upstream",
    UPSTREAM_AUTHORITY: { kind: "vault", url: upstream.url, mount: "pki/mesh" },
    UPSTREAM_CREDENTIAL: secret,
    MAX_WORKLOAD_CERT_TTL: `${leaf}s`,
    PROPAGATION_INTERVAL: `${propagation}s`,
    ...values,
  };
  const ca = await startCa(configuration, { cryptoProvider });
  clock.now = ca.now;
  return ca;
}

/** A CA whose first intermediate of an upstream signs, and whose next one is due. */
async function startDue(values: object = {}) {
  const upstream = await startUpstream(vault(root, nowOfCa));
  const ca = await start(upstream, values);
  await ca.rotate();
  const first = (await openStore(ca.mint)).authorities[0]?.id ?? "";
  ca.pass(40 * day);
  return { upstream, ca, first };
}

const idsIn = async (ca: RunningCa) => (await openStore(ca.mint)).authorities.map(({ id }) => id);

test("the cron founds a CA under the root of Vault, and sends what sign-intermediate takes", async () => {
  const upstream = await startUpstream(vault(root, nowOfCa));
  const ca = await start(upstream);
  await ca.rotate();
  ca.pass(2 * propagation);
  const [id] = await idsIn(ca);
  expect(await signerOf(ca)).toBe(id);
  const { roots, chain } = await issueLeaf(ca);
  expect([chain.length, roots.map(({ subject }) => subject)]).toEqual([3, ["O=company\nCN=root"]]);
  const [{ path, headers, body } = { path: "", headers: {}, body: {} }] = upstream.asked;
  expect(path).toBe("/v1/pki/mesh/root/sign-intermediate");
  expect(headers["x-vault-token"]).toBe(secret);
  expect(body).toMatchObject({
    common_name: expect.stringMatching(/^cluster\.local intermediate [0-9a-f]{12}$/),
    uri_sans: "spiffe://cluster.local",
    max_path_length: 0,
    use_csr_values: false,
    exclude_cn_from_sans: true,
  });
  expect(JSON.stringify(ca.log.operations)).not.toContain(secret);
});

test("a Rampart upstream answers its root last, and is asked for whole seconds as any other", () => {
  const { chain, roots } = UpstreamProtocol.rampart.answer({
    certChain: [nextRoot, root].map(({ pem }) => pem),
  });
  expect([chain, roots].map((each) => each.length)).toEqual([1, 1]);
  const names = { name: () => "a", organization: "o", uri: "spiffe://cluster.local" };
  const request = { csr: new Uint8Array(), lifetimeSeconds: 90.7 };
  expect(UpstreamProtocol.vault("pki", names).body(request)).toMatchObject({ ttl: "90s" });
  expect(UpstreamProtocol.rampart.body(request)).toMatchObject({ validityDuration: "90" });
});

test("the cron asks again when it is due, and not before or twice", async () => {
  const upstream = await startUpstream(vault(root, nowOfCa));
  const ca = await start(upstream);
  for (let i = 0; i < 4; i++) {
    await ca.rotate();
    ca.pass(5 * day);
  }
  expect(upstream.asked).toHaveLength(1);
  for (let i = 0; i < 4; i++) {
    ca.pass(5 * day);
    await ca.rotate();
  }
  expect(upstream.asked).toHaveLength(2);
  const [, second] = await idsIn(ca);
  ca.pass(propagation);
  expect(await signerOf(ca)).toBe(second);
});

test("a new root upstream is published, and signs when every verifier knows it", async () => {
  const { upstream, ca, first } = await startDue();
  upstream.behaviour = vault(nextRoot, nowOfCa);
  await ca.rotate();
  ca.pass(propagation);
  const { roots } = await issueLeaf(ca);
  expect(roots).toHaveLength(2);
  expect(await signerOf(ca)).toBe(first);
  // The root came after the deadline of this CA's short life, so that it waits no longer than the first signs.
  ca.pass(leaf + propagation);
  expect(await signerOf(ca)).not.toBe(first);
});

/** An upstream whose intermediate may sign certificates alone, and says what else is given. */
const certifying = (...more: readonly x509.Extension[]): UpstreamServer["behaviour"] => {
  const canSign = new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true);
  const extensions = [new x509.BasicConstraintsExtension(true, 0, true), canSign, ...more];
  return (asked) => vault(root, nowOfCa, { extensions })(asked);
};

describe("an upstream", () => {
  test.for<[string, UpstreamServer["behaviour"], string]>([
    ["refuses", text(403, "{}"), "answered with status 403"],
    ["answers an error", text(200, `{"errors":["${secret}"]}`), "answered no certificate (data)"],
    [
      "answers with no certificate in the PEM",
      () => ({ data: { certificate: "-", ca_chain: [] } }),
      "no usable intermediate: no certificate",
    ],
    [
      "certifies another key",
      async () => {
        const { pem } = await createCa("O=other", { issuer: root });
        return { data: { certificate: pem, ca_chain: [root.pem] } };
      },
      "a certificate for another key",
    ],
    [
      "certifies a name as its own issuer",
      async (asked) => {
        const { subject } = new x509.Pkcs10CertificateRequest(String(asked.body.csr));
        return vault({ ...root, name: subject }, nowOfCa)(asked);
      },
      "a self-signed certificate",
    ],
    [
      "gives it the SPIFFE ID of a workload",
      certifying(
        new x509.SubjectAlternativeNameExtension([
          { type: "url", value: "spiffe://cluster.local/ns/istio-system/sa/ca" },
        ]),
      ),
      "carries the SPIFFE ID of a workload",
    ],
    ["lets it sign no CRLs", certifying(), "the key usage of the intermediate lacks cRLSign"],
    [
      "answers a longer chain than any path",
      async (asked) => {
        const { certificate } = (await vault(root, nowOfCa)(asked)).data;
        const between = Array.from({ length: 8 }, () => createCa("O=between", { issuer: root }));
        const chain = [...(await Promise.all(between)), root];
        return { data: { certificate, ca_chain: chain.map(({ pem }) => pem) } };
      },
      "more than 8 certificates",
    ],
    [
      "certifies for too short a time",
      (asked) => vault(root, nowOfCa, { notAfter: addSeconds(nowOfCa(), 20 * day) })(asked),
      "an intermediate must live for",
    ],
  ])("that %s changes nothing, is logged, and is asked again", async ([, behaviour, sentence]) => {
    const { upstream, ca, first } = await startDue({ CRL: "on" });
    const before = new Map(ca.store.records);
    upstream.behaviour = behaviour;
    for (let i = 0; i < 2; i++) await expect(ca.rotate()).rejects.toThrow(AggregateError);
    // A client may repeat a request whose connection was closed.
    expect(upstream.asked.length).toBeGreaterThanOrEqual(3);
    expect(ca.store.records).toEqual(before);
    expect(await signerOf(ca)).toBe(first);
    const faults = ca.log.operations.filter(({ event }) => event === "rotation-fault");
    expect(faults).toHaveLength(2);
    expect(faults[0]?.detail).toContain(sentence);
    expect(JSON.stringify(ca.log.operations)).not.toContain(secret);
  });

  test.each([
    ["certificate 1", "intermediate"],
    ["root 1", "CN=root"],
    ["a root beside its own", "CN=next root"],
  ])(
    "gives nothing if this platform's verifier cannot read %s of its answer",
    async (title, unreadable) => {
      const requireReadable = (der: Bytes): void => {
        const { subject } = new X509Certificate(der);
        if (subject.includes(unreadable)) throw new DerError("OpenSSL does not read it");
      };
      const upstream = await startUpstream(async (asked) => {
        const { certificate } = (await vault(root, nowOfCa)(asked)).data;
        return { data: { certificate, ca_chain: [root.pem, nextRoot.pem] } };
      });
      const ca = await start(upstream, {}, { ...webCryptoProvider, requireReadable });
      const fault = `no usable intermediate: ${title}: OpenSSL does not read it`;
      await expect(ca.rotate()).rejects.toThrow(fault);
      expect(ca.store.records.size).toBe(0);
    },
  );

  test("that refuses the first intermediate is logged as well, and is asked again", async () => {
    const upstream = await startUpstream(text(403, "{}"));
    const ca = await start(upstream);
    for (let i = 0; i < 2; i++) await expect(ca.rotate()).rejects.toThrow(UpstreamError);
    expect(ca.log.operations.map(({ event, detail }) => [event, detail])).toEqual(
      [0, 1].map(() => ["rotation-fault", "the CA upstream answered with status 403"]),
    );
    upstream.behaviour = vault(root, nowOfCa);
    await ca.rotate();
    expect(await idsIn(ca)).toHaveLength(1);
  });

  test("that gives nothing is reported while there is time to act, however short its intermediates are", async () => {
    const upstream = await startUpstream((asked) =>
      vault(root, nowOfCa, { notAfter: addSeconds(nowOfCa(), 4 * 3600) })(asked),
    );
    const ca = await start(upstream, {
      DEFAULT_WORKLOAD_CERT_TTL: "1h",
      MAX_WORKLOAD_CERT_TTL: "1h",
      PROPAGATION_INTERVAL: "240s",
    });
    await ca.rotate();
    upstream.behaviour = text(500, "{}");
    const { due, deadline } = NextStep.of(await openStore(ca.mint)) ?? {};
    if (!due || !deadline) throw new Error("nothing is due");
    const passUntil = (at: Date): void => ca.pass((at.getTime() - ca.now().getTime()) / 1000);
    passUntil(due);
    expect((await readiness(ca)).reasons).toEqual([]);
    passUntil(new Date((due.getTime() + deadline.getTime()) / 2));
    expect((await readiness(ca)).reasons).toEqual([
      expect.stringMatching(/^the next intermediate is due: .*the CA upstream has given none/),
    ]);
  });

  test("that is late may give a short intermediate, once", async () => {
    const { upstream, ca } = await startDue();
    ca.pass(6 * day);
    upstream.behaviour = (asked) =>
      vault(root, nowOfCa, { notAfter: addSeconds(nowOfCa(), 11 * day) })(asked);
    const refusesLife = async () => {
      await expect(ca.rotate()).rejects.toThrow(AggregateError);
      const fault = ca.log.operations.findLast(({ event }) => event === "rotation-fault");
      expect(fault?.detail).toContain("no longer than what it would succeed");
    };
    await refusesLife();
    const [only] = (await openStore(ca.mint)).authorities;
    const lead = Schedule.leadSeconds(ca.mint.phaseLengths);
    const notAfter = addSeconds(only?.schedule.signsUntil ?? nowOfCa(), lead);
    upstream.behaviour = vault(root, nowOfCa, { notAfter });
    await refusesLife();
    expect(await idsIn(ca)).toHaveLength(1);
    upstream.behaviour = (asked) =>
      vault(root, nowOfCa, { notAfter: addSeconds(nowOfCa(), 25 * day) })(asked);
    await ca.rotate();
    expect(await idsIn(ca)).toHaveLength(2);
    // The next one is due and not late yet.
    ca.pass(3 * day);
    await expect(ca.rotate()).rejects.toThrow(AggregateError);
    expect(await idsIn(ca)).toHaveLength(2);
  });
});

test("a CA upstream is asked with the roots of every authority of the store", async () => {
  const { upstream, ca } = await startDue();
  upstream.behaviour = vault(nextRoot, nowOfCa);
  await ca.rotate();
  expect(await idsIn(ca)).toHaveLength(2);
  let known: readonly Uint8Array[] = [];
  const asking: UpstreamAuthority = async ({ knownRoots = [] }) => {
    known = knownRoots;
    throw new UpstreamError("no");
  };
  const mint = { ...ca.mint, upstream: asking };
  await expect(askUpstream(mint, undefined, ca.now())).rejects.toThrow(UpstreamError);
  expect(new Set(known.map((der) => der.join())).size).toBe(2);
});

test("a tainted intermediate makes its successor due, though it would have signed for longer", async () => {
  const { ca, first } = await startDue();
  const before = NextStep.of(await openStore(ca.mint));
  await Mint.recordTaint(ca.mint, await decideTaint(ca, "with-last-leaf", first));
  const after = NextStep.of(await openStore(ca.mint));
  expect(before?.signsUntil?.getTime()).toBeGreaterThan(ca.now().getTime());
  expect(after?.signsUntil?.getTime()).toBeLessThanOrEqual(ca.now().getTime());
});

test("below another root, too, the successor of a tainted intermediate signs once it is published", async () => {
  const { upstream, ca, first } = await startDue();
  upstream.behaviour = vault(nextRoot, nowOfCa);
  await taint(ca, "with-last-leaf", first);
  ca.pass(propagation);
  const signer = await signerOf(ca);
  expect(signer).toBeDefined();
  expect(signer).not.toBe(first);
});
