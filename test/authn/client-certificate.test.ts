import "reflect-metadata/lite";
import {
  BasicConstraintsExtension,
  Extension,
  type JsonGeneralNames,
  KeyUsageFlags,
} from "@peculiar/x509";
import { describe, expect, test } from "vitest";
import { parseClientCertificate } from "../../src/authn/client-certificate.ts";
import { NewAuthority } from "../../src/pki/authority/new-authority.ts";
import { clusterLocal, oneDay, tenDays } from "../testkit/pki/certificates.ts";
import { type ClientLeaf, signClientLeaf } from "../testkit/pki/client-leaf.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-03-02T12:00:00Z");
const { authority, extractablePrivateKey } = await NewAuthority.create(
  clusterLocal,
  "EC-P256",
  tenDays,
);
const signer = { certificate: authority.certificate.der, privateKey: extractablePrivateKey };
const bar = "spiffe://cluster.local/ns/foo/sa/bar";

const certificate = (leaf: ClientLeaf) => signClientLeaf(signer, bar, { ...oneDay, ...leaf });

const parsed = async (leaf: ClientLeaf) => {
  const { spiffeId, account } = parseClientCertificate(await certificate(leaf), clusterLocal, now);
  return { spiffeId, account };
};
const checkOf = async (leaf: ClientLeaf) => {
  const refusal = await refusalOf(() => parsed(leaf));
  return refusal.reason === "credential-rejected" ? refusal.check : refusal.reason;
};

const isBar = { spiffeId: bar, account: { namespace: "foo", name: "bar" } };
const uri = (value: string) => ({ type: "url" as const, value });
const { digitalSignature, keyCertSign, keyEncipherment, cRLSign } = KeyUsageFlags;
const serverAuth = "1.3.6.1.5.5.7.3.1";
const clientAuth = "1.3.6.1.5.5.7.3.2";
const unknown = (isCritical: boolean) =>
  new Extension("1.3.6.1.4.1.99999.1", isCritical, new Uint8Array([5, 0]));

describe("a client certificate", () => {
  test("names its caller by its one URI", async () => {
    expect(await parsed({})).toEqual(isBar);
  });

  test("may have other names, which do not count", async () => {
    const names: JsonGeneralNames = [
      { type: "dns", value: "istiod.istio-system.svc" },
      { type: "ip", value: "10.0.0.1" },
      { type: "email", value: "root@cluster.local" },
      { type: "dn", value: "CN=root" },
      uri(bar),
      { type: "id", value: "1.2.3" },
    ];
    expect(await parsed({ names })).toEqual(isBar);
  });

  test.each<[string, ClientLeaf]>([
    ["basic constraints of a leaf", { extensions: [new BasicConstraintsExtension(false)] }],
    ["an RSA leaf's key usage", { usages: digitalSignature | keyEncipherment }],
    ["the purposes of istiod's leaves", { purposes: [serverAuth, clientAuth] }],
    ["these in another order", { purposes: [clientAuth, serverAuth] }],
    ["an unknown extension", { extensions: [unknown(false)] }],
  ])("may have %s", async (_, leaf) => {
    expect(await parsed(leaf)).toEqual(isBar);
  });

  test.each<[string, string, ClientLeaf]>([
    ["has two URIs", "subject", { names: [uri(bar), uri("spiffe://cluster.local/ns/a/sa/b")] }],
    ["has the same URI twice", "subject", { names: [uri(bar), uri(bar)] }],
    ["has no URI", "subject", { names: [{ type: "dns", value: "a.test" }] }],
    ["has no names", "subject", { names: [] }],
    ["is of another trust domain", "subject", { names: [uri("spiffe://other/ns/foo/sa/bar")] }],
    ["names a trust domain", "subject", { names: [uri("spiffe://cluster.local")] }],
    ["names something else", "subject", { names: [uri("spiffe://cluster.local/host/a")] }],
    ["names a web site", "subject", { names: [uri("https://cluster.local/ns/foo/sa/bar")] }],
    ["has expired", "time", { notAfter: new Date("2026-03-02T11:59:59Z") }],
    ["is not valid yet", "time", { notBefore: new Date("2026-03-02T12:00:01Z") }],
    ["is a CA's", "form", { extensions: [new BasicConstraintsExtension(true)] }],
    ["has no key usage", "form", { usages: undefined }],
    ["may not sign", "form", { usages: keyEncipherment }],
    ["may sign certificates", "form", { usages: digitalSignature | keyCertSign }],
    ["may sign lists of revocations", "form", { usages: digitalSignature | cRLSign }],
    ["has no purpose", "form", { purposes: [] }],
    ["is for serving alone", "form", { purposes: [serverAuth] }],
    ["is for any purpose", "form", { purposes: ["2.5.29.37.0"] }],
    ["has an unknown critical extension", "form", { extensions: [unknown(true)] }],
    ["is longer than any leaf", "form", { names: [uri(bar), uri(`https://${"x".repeat(9000)}`)] }],
  ])("is refused when it %s", async (_, check, leaf) => {
    expect(await checkOf(leaf)).toBe(check);
  });

  test("is refused when it is no certificate", async () => {
    const whole = await certificate({});
    for (const der of [whole.subarray(0, 100), new Uint8Array(), whole.subarray(1)]) {
      const refusal = await refusalOf(() => parseClientCertificate(der, clusterLocal, now));
      expect(refusal).toEqual({ reason: "credential-rejected", check: "form" });
    }
  });

  test("is good to the very second", async () => {
    expect(await parsed({ notAfter: now })).toEqual(isBar);
    expect(await parsed({ notBefore: now })).toEqual(isBar);
  });
});
