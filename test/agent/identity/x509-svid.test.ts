import "reflect-metadata/lite";
import { readFile } from "node:fs/promises";
import { ExtendedKeyUsage, ExtendedKeyUsageExtension } from "@peculiar/x509";
import { expect, test } from "vitest";
import {
  chainPem,
  generateSubjectKey,
  IssuanceError,
  parseAnswer,
  privateKeyPem,
} from "../../../src/agent/identity/x509-svid.ts";
import {
  authorityIn,
  createTestAuthority,
  expiresAt,
  issuedAt,
} from "../../testkit/agent/test-authority.ts";
import { workload } from "../../testkit/pki/certificates.ts";

const spiffeId = workload("foo", "bar");
const now = new Date("2026-11-21T12:00:01Z");
const root = await createTestAuthority();
const stranger = await createTestAuthority();
const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
const otherKey = await generateSubjectKey({ kind: "EC", curve: "P-256" });
const leaf = await root.issue(spiffeId, key.publicKey);
const { privateKey } = key;

const parse = (chain: readonly string[], at = now) =>
  parseAnswer(chain, { spiffeId, privateKey }, at);

function faultOf(chain: readonly string[], at = now): string {
  try {
    parse(chain, at);
  } catch (error) {
    if (error instanceof IssuanceError) return error.fault;
    throw error;
  }
  return "accepted";
}

test("writes a key as pilot-agent does, in PKCS#8 or in its older form", async () => {
  const rsa = await generateSubjectKey({ kind: "RSA", bits: 2048 });
  const labels = [rsa.privateKey, privateKey].flatMap((each) =>
    [true, false].map((isPkcs8) => privateKeyPem(each, isPkcs8).split("-----", 2)[1]),
  );
  const [pkcs8, pkcs1, sec1] = ["", "RSA ", "EC "].map((kind) => `BEGIN ${kind}PRIVATE KEY`);
  expect(labels).toEqual([pkcs8, pkcs1, pkcs8, sec1]);
});

test("accepts a leaf and its root", () => {
  const { svid, roots } = parse([leaf, root.pem]);
  expect(chainPem(svid).trim()).toBe(leaf.trim());
  expect(svid.notAfter).toEqual(expiresAt);
  expect(svid.obtainedAt).toBe(now);
  expect(roots.map(({ fingerprint256 }) => fingerprint256)).toEqual([
    root.certificate.fingerprint256,
  ]);
  // A root that the CA repeats is none of the chain, and junk in a bundle is left out, as in Istio.
  const junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const repeated = parse([leaf, root.pem, `${junk}hello\n${root.pem}`]);
  expect([repeated.svid.chain.length, repeated.roots.length]).toEqual([1, 1]);
});

test("accepts a leaf under an intermediate, whose root is one of twenty", async () => {
  const intermediate = await root.intermediate("intermediate");
  const others = await Promise.all(
    Array.from({ length: 19 }, (_, i) => createTestAuthority(`${i}`)),
  );
  const below = await intermediate.issue(spiffeId, key.publicKey);
  const bundle = [...others, root].map(({ pem }) => pem).join("");
  const { svid, roots } = parse([below, intermediate.pem, bundle]);
  expect(svid.chain).toHaveLength(2);
  expect(roots).toHaveLength(20);
});

test("accepts a root of version 1, such as that of Istio's sample, and no intermediate of that version", async () => {
  const file = (name: string) => readFile(`test/vectors/istio-cacerts-ec/ecc-${name}.pem`, "utf8");
  const [certificate, anchor] = await Promise.all([file("int-cert"), file("root-cert")]);
  const istios = await authorityIn(certificate, await file("int-key"));
  const below = await istios.issue(spiffeId, key.publicKey);
  expect(parse([below, certificate, anchor]).roots).toHaveLength(1);
  expect(faultOf([below, anchor])).toBe("chain-broken");
  expect(faultOf([leaf, anchor, root.pem])).toBe("chain-broken");
});

test("accepts no chain over a workload's certificate, whatever its key has signed", async () => {
  const pem = otherKey.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const [workloads, authoritys] = await Promise.all(
    [false, true].map((isCa) => root.issue(spiffeId, otherKey.publicKey, { isCa })),
  );
  for (const [above = "", outcome] of [
    [workloads, "chain-broken"],
    [authoritys, "accepted"],
  ]) {
    const below = await (await authorityIn(above, pem)).issue(spiffeId, key.publicKey);
    expect(faultOf([below, above, root.pem])).toBe(outcome);
  }
});

test("accepts no leaf of a root that has expired", async () => {
  const [notBefore, notAfter] = [new Date("2035-12-31"), new Date("2036-02-01")];
  const late = await root.issue(spiffeId, key.publicKey, { notBefore, notAfter });
  expect(faultOf([late, root.pem], new Date("2035-12-31T12:00:00Z"))).toBe("accepted");
  expect(faultOf([late, root.pem], new Date("2036-01-01T00:00:01Z"))).toBe("chain-broken");
});

test.each([
  ["an empty answer", [], "answer-empty"],
  ["one element", [leaf], "answer-empty"],
  ["garbage", ["foo", "bar"], "answer-malformed"],
  ["no root", [leaf, ""], "answer-malformed"],
  [
    "a private key in place of the leaf",
    ["-----BEGIN EC PRIVATE KEY-----\nAAAA\n", root.pem],
    "answer-malformed",
  ],
  ["another authority", [leaf, stranger.pem], "chain-broken"],
  ["an intermediate that is not its issuer", [leaf, stranger.pem, root.pem], "chain-broken"],
] as const)("refuses %s", (_name, chain, fault) => {
  expect(faultOf(chain)).toBe(fault);
});

const ofKey = (changes: Parameters<typeof root.issue>[2], id = spiffeId) =>
  root.issue(id, key.publicKey, changes);

test.each<[string, Promise<string>, string]>([
  ["of another key", root.issue(spiffeId, otherKey.publicKey), "key-mismatch"],
  ["of a CA", ofKey({ isCa: true }), "key-mismatch"],
  ["of another identity", ofKey({}, workload("foo", "baz")), "identity-mismatch"],
  ["with a second name", ofKey({ names: [spiffeId, "spiffe://a.test/b"] }), "identity-mismatch"],
  [
    "whose name only begins with the requested one",
    ofKey({ names: [`${spiffeId}/x`] }),
    "identity-mismatch",
  ],
  [
    "whose life begins tomorrow",
    ofKey({ notBefore: new Date("2026-11-22T11:00:00Z") }),
    "validity-unacceptable",
  ],
  [
    "whose life ends before it begins",
    ofKey({ notAfter: new Date(issuedAt.getTime() - 1000) }),
    "validity-unacceptable",
  ],
])("refuses a certificate %s", async (_, issued, fault) => {
  expect(faultOf([await issued, root.pem])).toBe(fault);
});

test("refuses a certificate that has expired by the agent's clock, which may be some minutes behind", () => {
  expect(faultOf([leaf, root.pem], expiresAt)).toBe("validity-unacceptable");
  expect(faultOf([leaf, root.pem], new Date(issuedAt.getTime() - 600_000))).toBe("accepted");
});

test("accepts a serving certificate only where one is due, and no identity there", async () => {
  const serverAuth = [new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth])];
  const hosts = ["istiod.istio-system.svc"];
  const serving = await root.issue(spiffeId, key.publicKey, { hosts, extensions: serverAuth });
  const withoutUsage = await root.issue(spiffeId, key.publicKey, { hosts });
  const parseServing = (pem: string) =>
    parseAnswer([pem, root.pem], { spiffeId, privateKey }, now, "serving");
  expect(parseServing(serving).svid.chain[0].subjectAltName).toBe(`DNS:${hosts[0]}`);
  expect(faultOf([serving, root.pem])).toBe("identity-mismatch");
  const withIdentity = await root.issue(spiffeId, key.publicKey, {
    hosts,
    names: [spiffeId],
    extensions: serverAuth,
  });
  for (const pem of [leaf, withoutUsage, withIdentity]) {
    expect(() => parseServing(pem)).toThrow("not for a server's DNS names");
  }
});
