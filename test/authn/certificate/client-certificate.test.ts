import "reflect-metadata/lite";
import {
  BasicConstraintsExtension,
  type Extension,
  type JsonGeneralNames,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { describe, expect, test } from "vitest";
import { createCertificateAuthenticator } from "../../../src/authn/certificate/client-certificate.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00Z");
const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const keys = (await crypto.subtle.generateKey(algorithm, false, [
  "sign",
  "verify",
])) as CryptoKeyPair;
const bar = "spiffe://cluster.local/ns/foo/sa/bar";
const authenticate = createCertificateAuthenticator(clusterLocal);

interface Content {
  readonly names?: JsonGeneralNames;
  readonly extensions?: readonly Extension[];
  readonly notBefore?: string;
  readonly notAfter?: string;
}

/** A certificate; this layer relies on the platform to have verified its chain. */
async function certificate(content: Content): Promise<Uint8Array<ArrayBuffer>> {
  const { names = [{ type: "url", value: bar }], extensions = [] } = content;
  const { rawData } = await X509CertificateGenerator.createSelfSigned({
    name: "O=anything",
    keys,
    signingAlgorithm: algorithm,
    notBefore: new Date(content.notBefore ?? "2026-11-21T11:00:00Z"),
    notAfter: new Date(content.notAfter ?? "2026-11-22T11:00:00Z"),
    extensions: [
      ...(names.length > 0 ? [new SubjectAlternativeNameExtension(names, true)] : []),
      ...extensions,
    ],
  });
  return new Uint8Array(rawData);
}

const call = async (content: Content) =>
  authenticate({ headers: new Headers(), clientCertificate: await certificate(content) }, now);
const checkOf = async (content: Content) => {
  const refusal = await refusalOf(() => call(content));
  return refusal.reason === "credential-rejected" ? refusal.check : refusal.reason;
};

const isBar = { spiffeId: bar, account: { namespace: "foo", name: "bar" } };
const uri = (value: string) => ({ type: "url" as const, value });

describe("a client certificate", () => {
  test("names its caller by its one URI", async () => {
    expect(await call({})).toEqual(isBar);
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
    expect(await call({ names })).toEqual(isBar);
  });

  test("may have basic constraints of a leaf", async () => {
    expect(await call({ extensions: [new BasicConstraintsExtension(false)] })).toEqual(isBar);
  });

  test.each<[string, string, Content]>([
    ["has two URIs", "subject", { names: [uri(bar), uri("spiffe://cluster.local/ns/a/sa/b")] }],
    ["has the same URI twice", "subject", { names: [uri(bar), uri(bar)] }],
    ["has no URI", "subject", { names: [{ type: "dns", value: "a.test" }] }],
    ["has no names", "subject", { names: [] }],
    ["is of another trust domain", "subject", { names: [uri("spiffe://other/ns/foo/sa/bar")] }],
    ["names a trust domain", "subject", { names: [uri("spiffe://cluster.local")] }],
    ["names something else", "subject", { names: [uri("spiffe://cluster.local/host/a")] }],
    ["names a web site", "subject", { names: [uri("https://cluster.local/ns/foo/sa/bar")] }],
    ["has expired", "time", { notAfter: "2026-11-21T11:59:59Z" }],
    ["is not valid yet", "time", { notBefore: "2026-11-21T12:00:01Z" }],
    ["is a CA's", "form", { extensions: [new BasicConstraintsExtension(true)] }],
  ])("is refused when it %s", async (_, check, content) => {
    expect(await checkOf(content)).toBe(check);
  });

  test("is refused when it is no certificate", async () => {
    const whole = await certificate({});
    for (const clientCertificate of [whole.subarray(0, 100), new Uint8Array(), whole.subarray(1)]) {
      const refusal = await refusalOf(() =>
        authenticate({ headers: new Headers(), clientCertificate }, now),
      );
      expect(refusal).toEqual({ reason: "credential-rejected", check: "form" });
    }
  });

  test("is good to the very second", async () => {
    expect(await call({ notAfter: "2026-11-21T12:00:00Z" })).toEqual(isBar);
    expect(await call({ notBefore: "2026-11-21T12:00:00Z" })).toEqual(isBar);
  });
});

test("a caller without a certificate is not authenticated", async () => {
  const refusal = await refusalOf(() => authenticate({ headers: new Headers() }, now));
  expect(refusal).toEqual({ reason: "credential-missing" });
});
