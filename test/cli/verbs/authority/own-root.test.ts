import "reflect-metadata/lite";
import { X509Certificate } from "node:crypto";
import { readdir, rm, stat, writeFile } from "node:fs/promises";
import * as x509 from "@peculiar/x509";
import { beforeEach, describe, expect, test } from "vitest";
import { addSeconds } from "../../../../src/pki/x509/validity.ts";
import { type SigningDepartures, signIntermediate } from "../../../testkit/pki/company-ca.ts";
import {
  createCa,
  type TestCa,
  writeCacerts,
  writeFolder,
} from "../../../testkit/pki/plugged-in.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { Operator } from "../../operator.ts";

const day = 86_400;
/** A longest leaf and a propagation interval; both together are an overlap. */
const [leaf, propagation] = [10 * day, 600];
const overlap = leaf + propagation;

const start = new Date("2026-06-01T00:00:00.000Z");
const root = await createCa("O=company,CN=root");
const nextRoot = await createCa("O=company,CN=next root");

let operator: Operator;

const at = (seconds: number) => addSeconds(start, seconds);
const authority = (...words: readonly string[]) => operator.authority(...words);
const refusal = async (...words: readonly string[]): Promise<string> =>
  (await operator.refusal(...words)).message;
const requests = async (): Promise<{ id: string; requestedAt: string; csr: string }[]> =>
  JSON.parse(await authority("requests", "--json"));
const plan = async () => JSON.parse(await authority("plan", "--json"));

const fingerprintOf = ({ pem }: TestCa): string =>
  new X509Certificate(pem).fingerprint256.replaceAll(":", "").toLowerCase();

/** Has a request signed, and writes the answer with its root. */
async function answer(
  csr: string,
  issuer: TestCa = root,
  departures: Partial<SigningDepartures> = {},
): Promise<string> {
  const notAfter = departures.notAfter ?? addSeconds(operator.now, 365 * day);
  const pem = await signIntermediate(issuer, csr, { ...departures, notAfter });
  await writeFile(operator.file("chain.pem"), pem + issuer.pem);
  return operator.file("chain.pem");
}

async function renew(issuer: TestCa = root, ...options: readonly string[]): Promise<string> {
  const chain = await answer(await authority("request"), issuer);
  const [open] = await requests();
  await authority("install", chain, ...options);
  return open?.id ?? "";
}

const scheduleOf = async (id: string) => {
  const authorities = await operator.authorities();
  return authorities.find((each) => each.id === id)?.schedule;
};

beforeEach(async () => {
  const lengths = [
    `MAX_WORKLOAD_CERT_TTL = "${leaf}s"`,
    `PROPAGATION_INTERVAL = "${propagation}s"`,
  ];
  operator = await Operator.create(start, ...lengths);
  await operator.configure('AUTHORITY_ROOT = "offline"');
});

describe("a request", () => {
  test("asks for an intermediate of path length 0 that signs certificates, with the trust domain as its SPIFFE ID", async () => {
    const csr = new x509.Pkcs10CertificateRequest(await authority("request"));
    expect(await csr.verify()).toBe(true);
    expect(csr.subject).toMatch(/^O=cluster\.local, CN=cluster\.local intermediate [0-9a-f]{12}$/);
    const [constraints, usages, names] = csr.extensions;
    expect(constraints).toMatchObject({ ca: true, pathLength: 0, critical: true });
    expect(usages).toMatchObject({ critical: true, usages: 0x60 });
    expect((names as x509.SubjectAlternativeNameExtension).names.toJSON()).toEqual([
      { type: "url", value: "spiffe://cluster.local" },
    ]);
  });

  test("is listed with its age until it has its answer, and prints its CSR again", async () => {
    const csr = await authority("request");
    operator.now = at(47 * 3600);
    expect(await authority("requests")).toMatch(/EC-P256 +2026-06-01 00:00Z +47 h$/m);
    operator.now = at(5 * day);
    expect(await authority("requests")).toMatch(/EC-P256 +2026-06-01 00:00Z +5 days$/m);
    const younger = await authority("request");
    expect((await requests()).map((each) => each.csr.trim())).toEqual([csr, younger]);
    await authority("withdraw", (await requests())[1]?.id ?? "", "--yes");
    await authority("install", await answer(csr));
    expect(await requests()).toEqual([]);
    expect(await readdir(operator.file("store/requests"))).toEqual([]);
  });

  test("is withdrawn for good", async () => {
    const csr = await authority("request");
    const [open] = await requests();
    expect(await refusal("withdraw", open?.id ?? "")).toContain("add --yes");
    await authority("withdraw", open?.id ?? "", "--yes");
    expect(await refusal("install", await answer(csr))).toContain("holds no open request");
  });

  test("survives in a backup: its answer is installed into the restored store, and asks for no other", async () => {
    await renew();
    const csr = await authority("request");
    const [other, own] = [await operator.recipient(), await operator.recipient()];
    const recipients = [...own, ...other];
    expect(await authority("export", "-o", operator.file("backup"), ...recipients)).toContain(
      `It holds open requests: ${(await requests())[0]?.id.slice(0, 12)}.`,
    );
    expect((await stat(operator.file("backup"))).mode & 0o777).toBe(0o600);
    await rm(operator.file("store"), { recursive: true });
    const identity = operator.file("identity");
    await authority("restore", operator.file("backup"), "--identity", identity, "--yes");
    expect((await requests()).map((each) => each.csr.trim())).toEqual([csr]);
    await authority("install", await answer(csr));
    expect(await operator.authorities()).toHaveLength(2);
    expect(await requests()).toEqual([]);
  });

  test("is refused where authorities are their own roots", async () => {
    await operator.configure();
    expect(await refusal("request")).toContain('set AUTHORITY_ROOT = "offline" first');
  });
});

describe("an answer", () => {
  test("signs after two propagation intervals in an empty store, until its last leaf expires with it", async () => {
    const id = await renew();
    const notAfter = at(365 * day).toISOString();
    expect(await scheduleOf(id)).toEqual({
      publishedFrom: start.toISOString(),
      signsFrom: at(2 * propagation).toISOString(),
      signsUntil: at(365 * day - overlap).toISOString(),
      retiresAt: notAfter,
    });
  });

  test("signs after one interval under a root that every live bundle has", async () => {
    const first = await renew();
    operator.now = at(200 * day);
    const id = await renew();
    expect(await refusal("taint", first, "--root", "with-last-leaf")).toContain(
      "No authority signs until 2026-12-18 00:10Z.",
    );
    const begins = at(200 * day + propagation).toISOString();
    expect(await scheduleOf(id)).toMatchObject({ publishedFrom: begins, signsFrom: begins });
  });

  test("waits for the bundles that lack a root which came lately", async () => {
    await renew();
    operator.now = at(day);
    const id = await renew();
    expect((await scheduleOf(id))?.signsFrom).toBe(at(overlap).toISOString());
  });

  test("under a new root is asked about, then published, and signs when every verifier knows that root", async () => {
    await renew();
    operator.now = at(200 * day);
    const chain = await answer(await authority("request"), nextRoot);
    expect(await refusal("install", chain)).toContain(fingerprintOf(nextRoot));
    const [open] = await requests();
    await authority("install", chain, "--yes");
    expect(await scheduleOf(open?.id ?? "")).toMatchObject({
      publishedFrom: at(200 * day + propagation).toISOString(),
      signsFrom: at(200 * day + propagation + overlap).toISOString(),
    });
  });

  test("is found in a chain without its root, when the bundle has that", async () => {
    await renew();
    operator.now = at(200 * day);
    const csr = await authority("request");
    const pem = await signIntermediate(root, csr, { notAfter: at(500 * day) });
    await writeFile(operator.file("chain.pem"), pem);
    await authority("install", operator.file("chain.pem"));
    expect(await operator.authorities()).toHaveLength(2);
  });

  test("comes under a cross-signed root that leads to the one of the bundle", async () => {
    await renew();
    operator.now = at(200 * day);
    const cross = await createCa(nextRoot.name, { issuer: root, keys: nextRoot.keys });
    const csr = await authority("request");
    const pem = await signIntermediate(nextRoot, csr, { notAfter: at(500 * day) });
    await writeFile(operator.file("chain.pem"), pem + cross.pem);
    const [open] = await requests();
    await authority("install", operator.file("chain.pem"));
    expect((await scheduleOf(open?.id ?? ""))?.signsFrom).toBe(
      at(200 * day + propagation).toISOString(),
    );
  });

  test.for<[string, Partial<SigningDepartures>, string]>([
    ["no CA", { extensions: [new x509.BasicConstraintsExtension(false)] }, "it is no CA"],
    ["an end in the past", { notAfter: at(-1) }, "has expired"],
    ["a life of two leaves", { notAfter: at(2 * propagation + overlap) }, "leaves no time to sign"],
  ])("is refused with %s", async ([, departures, sentence]) => {
    const chain = await answer(await authority("request"), root, departures);
    expect(await refusal("install", chain)).toContain(sentence);
    expect(await operator.authorities()).toEqual([]);
    expect(await requests()).toHaveLength(1);
  });

  test("is refused for another key, under another root's name, and a second time", async () => {
    const csr = await authority("request");
    const chain = await answer(csr);
    const stranger = await createCa("O=low", { issuer: root });
    await writeFile(operator.file("other.pem"), stranger.pem + root.pem);
    expect(await refusal("install", operator.file("other.pem"))).toContain(
      "for the key of an open request",
    );
    const impostor = await createCa(root.name);
    const pem = await signIntermediate(impostor, csr, { notAfter: at(day) });
    await writeFile(operator.file("forged.pem"), pem + root.pem);
    expect(await refusal("install", operator.file("forged.pem"))).toContain("did not sign it");
    await authority("install", chain);
    expect(await refusal("install", chain)).toContain("holds no open request");
  });
});

describe("the plan", () => {
  test("counts the days to what a person must do, and ends with 3 once it is due, with 4 while nobody signs", async () => {
    expect(await refusal("plan")).toContain("holds no authority: make a request with");
    await authority("install", await answer(await authority("request")));
    const lead = 2 * propagation + leaf;
    const signsUntil = 365 * day - overlap;
    const due = signsUntil - lead - (signsUntil - lead - 2 * propagation) / 2;
    const { nextStep, events } = await plan();
    expect(nextStep).toMatchObject({
      act: "request",
      due: at(due).toISOString(),
      deadline: at(signsUntil - lead).toISOString(),
      daysUntilDue: Math.floor(due / day),
      isDue: false,
    });
    expect(events.map(({ event }: { event: string }) => event)).not.toContain("minted");
    // Its root is not everywhere yet, so nobody signs.
    expect(operator.terminal.exitCode).toBe(4);
    operator.now = at(due - day);
    await plan();
    expect(operator.terminal.exitCode).toBeUndefined();
    operator.now = at(due);
    expect((await plan()).needsAttention).toEqual([
      expect.stringMatching(/^the next intermediate is due: .* no request for one is open$/),
    ]);
    expect(operator.terminal.exitCode).toBe(3);
    await authority("request");
    expect((await plan()).nextStep.act).toBe("install");
    operator.now = at(signsUntil + 1);
    await plan();
    expect(operator.terminal.exitCode).toBe(4);
    operator.now = at(due);
    expect(await authority("plan")).toMatch(
      /Next step, due now, by .* \(in \d+ days\): install the certificate/,
    );
  });

  test("names the first step where there is no authority", async () => {
    await authority("request");
    expect(await refusal("plan")).toContain("install the answer to the open request");
  });

  test("says what a taint would leave: nothing", async () => {
    const id = await renew();
    operator.now = at(3 * propagation);
    expect(await authority("plan")).toMatch(/IF TAINTED NOW[^\n]*\n[0-9a-f]{12} +nothing/);
    expect(await refusal("taint", id, "--root", "immediately")).toContain(
      "No authority signs until another intermediate is installed.",
    );
  });
});

test("neither init nor rotate nor an overdue cron makes a self-signed root", async () => {
  expect(await refusal("init")).toContain("AUTHORITY_ROOT is offline");
  await renew();
  operator.now = at(364 * day);
  expect(await refusal("rotate")).toContain("AUTHORITY_ROOT is offline");
  const [first] = await operator.authorities();
  await authority("taint", first?.id ?? "", "--root", "immediately", "--yes");
  expect(await operator.authorities()).toHaveLength(1);
});

describe("an import", () => {
  const plug = async (ca: TestCa, issuer: TestCa) =>
    writeCacerts(await temporaryFolder(), ca, { roots: issuer.pem });
  const intermediate = (issuer: TestCa) =>
    createCa(`O=mesh,CN=${Math.random()}`, { issuer, notAfter: at(700 * day) });

  test("into an empty store trusts the roots beside its own, and names the CAs of each record", async () => {
    const directory = await plug(await intermediate(root), root);
    await writeFolder(directory, { "root-cert.pem": root.pem + nextRoot.pem });
    await authority("import", directory);
    const upper = await createCa("O=company,CN=upper", { issuer: root });
    const low = await createCa("O=mesh,CN=low", { issuer: upper, notAfter: at(700 * day) });
    const below = await plug(low, root);
    await writeFolder(below, { "cert-chain.pem": low.pem + upper.pem });
    await authority("import", below);
    const roles: string[] = [];
    for (const each of await operator.authorities()) {
      const { certificates } = JSON.parse(await authority("show", each.id, "--json"));
      roles.push(certificates.map(({ role }: { role: string }) => role).join());
    }
    expect(roles.toSorted()).toEqual(["authority,intermediate,root", "authority,root", "root"]);
  });

  test("of a new root and of others asks about all of them", async () => {
    await authority("import", await plug(await intermediate(root), root));
    const third = await createCa("O=company,CN=third root");
    const directory = await plug(await intermediate(nextRoot), nextRoot);
    await writeFolder(directory, { "root-cert.pem": nextRoot.pem + third.pem });
    const asked = await refusal("import", directory);
    for (const each of [nextRoot, third]) expect(asked).toContain(fingerprintOf(each));
  });

  test.for<[string, () => Promise<Record<string, string>>, string]>([
    [
      "another root beside",
      async () => ({ "root-cert.pem": root.pem + nextRoot.pem }),
      "root-cert.pem has a root that the trust bundle has not",
    ],
    [
      "a chain over a cross certificate",
      async () => {
        const cross = await createCa(root.name, { issuer: nextRoot, keys: root.keys });
        return { "cert-chain.pem": cross.pem, "root-cert.pem": nextRoot.pem };
      },
      "cert-chain.pem has other intermediates than the store",
    ],
    [
      "another key",
      async () => ({ "ca-key.pem": nextRoot.keyPem }),
      "the cert does not match the key",
    ],
  ])(
    "says why it does not take on %s, of a CA certificate that the store has",
    async ([, change, sentence]) => {
      const ca = await intermediate(root);
      const directory = await plug(ca, root);
      await authority("import", directory);
      await writeFolder(directory, await change());
      expect(await refusal("import", directory)).toContain(sentence);
      expect(await operator.authorities()).toHaveLength(1);
    },
  );
});
