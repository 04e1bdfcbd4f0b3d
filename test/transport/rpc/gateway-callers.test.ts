import { X509Certificate } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { forwardedValue } from "../../../src/authn/forwarding-headers.ts";
import { bearer, callWithClient, connectJson } from "../../contract/rpc-calls.ts";
import { issuers, issuerTables, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { serviceOf } from "../../testkit/ca/running-ca.ts";
import { startSigningCa } from "../../testkit/ca/tainted-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { endOf } from "../../testkit/refusal.ts";

const names = ["istiod.istio-system.svc", "ca.example.com"];
const gateway = "istio-system:rampart-gateway";
const vm = "spiffe://cluster.local/ns/foo/sa/vm";
const serving = { CertSigner: "serving" };

const workload = await createWorkload();
const key = await createTokenKey("ES256", "k1");
let service: ServiceUnderTest;

beforeEach(async () => {
  const gateways = [
    { account: "istio-system/rampart-gateway", dns_names: names },
    { account: "istio-system/envoy", dns_names: names, forwards: "identities" },
  ];
  const running = await startSigningCa({
    ISSUERS: [
      { ...issuerTables.cluster, jwks: jwksOf(key), gateways },
      { ...issuerTables.team, jwks: jwksOf(key) },
    ],
  });
  service = serviceOf(running, key);
});

type Texts = Readonly<Record<string, string>>;

async function call(account: string, metadata: Texts, headers: Texts = {}, issuer?: string) {
  const all = { ...(await bearer(service, account, issuer)), ...headers };
  return callWithClient(connectJson, service, { csr: workload.csrPem, metadata }, all);
}

async function issuedTo(...how: Parameters<typeof call>): Promise<X509Certificate> {
  const outcome = await call(...how);
  if (!("certChain" in outcome)) throw new Error(outcome.message);
  return new X509Certificate(outcome.certChain[0] ?? "");
}

describe("a gateway", () => {
  test("gets a certificate for its DNS names, for serving alone", async () => {
    const certificate = await issuedTo(gateway, serving);
    expect(certificate.subjectAltName).toBe(names.map((name) => `DNS:${name}`).join(", "));
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]);
    expect(certificate.ca).toBe(false);
    expect(certificate.checkHost("ca.example.com")).toBe("ca.example.com");
    expect(service.takeAudits()).toEqual([
      expect.objectContaining({
        outcome: "issued",
        spiffeId: "spiffe://cluster.local/ns/istio-system/sa/rampart-gateway",
        dnsNames: names,
      }),
    ]);
  });

  test("forwards a client whose certificate it has verified", async () => {
    const shown = await issuedTo("foo:vm", {});
    const forwarded = forwardedValue(shown.toString(), vm);
    service.takeAudits();
    const certificate = await issuedTo(
      gateway,
      {},
      {
        "x-forwarded-client-cert": forwarded,
        "x-rampart-peer": "192.0.2.7",
      },
    );
    expect(certificate.subjectAltName).toBe(`URI:${vm}`);
    expect(service.takeAudits()[0]).toMatchObject({
      spiffeId: vm,
      proof: "forwarded",
      callerSerialNumber: shown.serialNumber.toLowerCase(),
      forwardedPeer: "192.0.2.7",
      gateway: "spiffe://cluster.local/ns/istio-system/sa/rampart-gateway",
    });
  });

  test("alone says who its peer is, and by an address alone", async () => {
    const shown = await issuedTo("foo:vm", {}, { "x-rampart-peer": "192.0.2.7" });
    const forwarded = { "x-forwarded-client-cert": forwardedValue(shown.toString(), vm) };
    await issuedTo(gateway, {}, { ...forwarded, "x-rampart-peer": "the next desk" });
    const [direct, behind] = service.takeAudits();
    expect(behind).toMatchObject({ proof: "forwarded" });
    for (const each of [direct, behind]) expect(each).not.toHaveProperty("forwardedPeer");
  });

  test("forwards a name alone where its table allows it, and for nothing that lasts without the gateway", async () => {
    const forwarded = { "x-forwarded-client-cert": `Hash=ab;URI=${vm}` };
    expect(await endOf(service, () => call(gateway, {}, forwarded))).toBe(
      "Unauthenticated credential-rejected authority",
    );
    const named = await issuedTo("istio-system:envoy", {}, forwarded);
    expect(named.subjectAltName).toBe(`URI:${vm}`);
    service.takeAudits();
    const shown = { "x-forwarded-client-cert": forwardedValue(named.toString(), vm) };
    for (const account of [gateway, "istio-system:envoy"]) {
      expect(await endOf(service, () => call(account, {}, shown))).toBe(
        "Unauthenticated credential-rejected impersonation",
      );
    }
  });

  test("does not lend its names to the client that it forwards", async () => {
    const own = "spiffe://cluster.local/ns/istio-system/sa/rampart-gateway";
    const forwarded = forwardedValue((await issuedTo(gateway, {})).toString(), own);
    const header = { "x-forwarded-client-cert": forwarded };
    expect(await endOf(service, () => call(gateway, serving, header))).toBe(
      "InvalidArgument signer-unknown",
    );
  });
});

describe("a workload", () => {
  test.each([
    ["of the same issuer", "foo:bar", issuers.cluster],
    ["of the gateway's name at another issuer", "team-a:rampart-gateway", issuers.team],
    ["that is a node proxy", "istio-system:ztunnel", issuers.cluster],
  ])("%s gets no DNS name", async (_, account, issuer) => {
    expect(await endOf(service, () => call(account, serving, {}, issuer))).toBe(
      "InvalidArgument signer-unknown",
    );
  });
});
