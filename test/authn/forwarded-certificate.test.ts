import { describe, expect, test } from "vitest";
import type { Authenticator, Caller } from "../../src/authn/caller.ts";
import { CertificateVerifier } from "../../src/authn/certificate-verifier.ts";
import { acceptingForwardedCertificates } from "../../src/authn/forwarded-certificate.ts";
import { forwardedValue } from "../../src/authn/forwarding-headers.ts";
import { provedGateway } from "../../src/authn/proved-gateway.ts";
import type { TokenIssuer } from "../../src/authn/token-issuer.ts";
import { CaError, rejectCredential } from "../../src/foundation/errors.ts";
import { NewAuthority } from "../../src/pki/authority/new-authority.ts";
import { Hex } from "../../src/pki/encoding/bytes.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { SpiffeId } from "../../src/pki/spiffe-id.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { Certificate } from "../../src/pki/x509/certificate.ts";
import { IdentityProof } from "../../src/pki/x509/leaf/identity-proof.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { tokenIssuer, tokenIssuerWithoutKeys } from "../testkit/callers/token-issuers.ts";
import { createTokenKey } from "../testkit/callers/tokens.ts";
import { clusterLocal, proved, tenDays } from "../testkit/pki/certificates.ts";
import { signClientLeaf } from "../testkit/pki/client-leaf.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-03-02T12:00:00Z");
const gateway = { namespace: "istio-system", name: "rampart-gateway" };
const isGateway = (account: typeof gateway): boolean =>
  account.namespace === gateway.namespace && account.name === gateway.name;

const key = await createTokenKey("ES256", "k1");
const gatewayNames = (account: typeof gateway) =>
  isGateway(account) ? ["istiod.istio-system.svc"] : undefined;
const rules = { namespaces: ["foo", "istio-system"], gatewayNames };
const issuerA = tokenIssuer("https://a.test", [key], rules);
const issuerB = tokenIssuer("https://b.test", [key]);
const issuerOfEnvoys = tokenIssuer("https://e.test", [key], {
  ...rules,
  mayForwardIdentities: isGateway,
});

function callerOf(account: typeof gateway, issuer?: TokenIssuer): Caller {
  return { spiffeId: SpiffeId.ofWorkload(clusterLocal, account), account, issuer, proof: proved };
}

const bar = "spiffe://cluster.local/ns/foo/sa/bar";
const { authority, extractablePrivateKey } = await NewAuthority.create(
  clusterLocal,
  "EC-P256",
  tenDays,
);
const signer = { certificate: authority.certificate.der, privateKey: extractablePrivateKey };
const anyIssuer = tokenIssuerWithoutKeys("https://any.test");
const verify = CertificateVerifier.create({
  trustDomain: clusterLocal,
  vouchingAt: async () => [authority],
  isRevoked: async () => false,
  issuers: [anyIssuer],
  cryptoProvider: webCryptoProvider,
});
const pemOf = async (spiffeId: string) =>
  Pem.format("CERTIFICATE", await signClientLeaf(signer, spiffeId));
const barDer = await signClientLeaf(signer, bar);
const barPem = Pem.format("CERTIFICATE", barDer);
const elsewherePem = await pemOf("spiffe://cluster.local/ns/x/sa/y");
const strangersKey = (await NewAuthority.create(clusterLocal, "EC-P256", tenDays))
  .extractablePrivateKey;
const forged = Pem.format(
  "CERTIFICATE",
  await signClientLeaf({ ...signer, privateKey: strangersKey }, bar),
);

function callWith(caller: Caller, ...forwarded: readonly string[]): Promise<Caller> {
  return callOf(caller, new Headers(), forwarded);
}

function callOf(caller: Caller, headers: Headers, forwarded: readonly string[]): Promise<Caller> {
  const authenticate: Authenticator = async () => caller;
  for (const value of forwarded) headers.append("x-forwarded-client-cert", value);
  const accepting = acceptingForwardedCertificates(
    { trustDomain: clusterLocal, verify },
    authenticate,
  );
  return accepting({ headers }, now);
}

const keysAway = new CaError({ reason: "key-provider-unreachable", issuer: "https://a.test" }, "");

const ofGateway = (...forwarded: readonly string[]) =>
  callWith(callerOf(gateway, issuerA), ...forwarded);
const ofEnvoy = (...forwarded: readonly string[]) =>
  callWith(callerOf(gateway, issuerOfEnvoys), ...forwarded);
const certificate = (pem: string) => `Cert="${encodeURIComponent(pem)}"`;
/** Envoy leaves some characters as they are that encodeURIComponent codes, and the other way round. */
const asEnvoyCodes = (pem: string) =>
  `Cert="${pem.replaceAll("\n", "%0A").replaceAll(" ", "%20").replaceAll("+", "%2B")}"`;

const isBar = {
  spiffeId: bar,
  account: { namespace: "foo", name: "bar" },
};

describe("a gateway", () => {
  test.each([
    ["a certificate alone", certificate(barPem)],
    ["a certificate and its URI", forwardedValue(barPem, bar)],
    ["a certificate as Envoy codes it", `Hash=ab;${asEnvoyCodes(barPem)};Subject="";URI=${bar}`],
  ])("speaks for its client with %s", async (_, header) => {
    const { notBefore } = authority.certificate.toBeSigned.validity;
    const proof = {
      provedAt: notBefore,
      issuer: IdentityProof.issuerDigest("https://any.test"),
      isImpersonated: false,
    };
    const provedUntil = addSeconds(notBefore, 720 * 3600);
    const certificate = {
      authority: authority.id,
      serialNumber: Hex.format(Certificate.parse(barDer).toBeSigned.serialNumber),
    };
    const isProved = { ...isBar, proof, provedUntil, provedBy: anyIssuer, certificate };
    const [own, envoy] = [callerOf(gateway, issuerA), callerOf(gateway, issuerOfEnvoys)];
    expect(await ofGateway(header)).toEqual({ ...isProved, gateway: own });
    expect(await ofEnvoy(header)).toEqual({ ...isProved, gateway: envoy });
  });

  test.each([
    ["a URI alone", `URI=${bar}`],
    [
      "the form that Envoy writes",
      `By=spiffe://cluster.local/ns/x/sa/y;Hash=${"ab".repeat(32)};URI=${bar}`,
    ],
    ["a subject in quotation marks", `Hash=ab;Subject="CN=a,O=\\"b\\"";URI=${bar};DNS=a.test`],
  ])("speaks with %s only where its table says that a name suffices", async (_, header) => {
    const envoy = callerOf(gateway, issuerOfEnvoys);
    const proof = { ...proved, isImpersonated: true };
    const isNamed = { ...isBar, proof, provedBy: issuerOfEnvoys, gateway: envoy };
    expect(await ofEnvoy(header)).toEqual(isNamed);
    expect(await refusalOf(() => ofGateway(header))).toEqual({
      reason: "credential-rejected",
      check: "authority",
    });
  });

  test("that forwards no certificate is the caller itself", async () => {
    expect(await ofGateway()).toMatchObject({ account: gateway, issuer: issuerA });
  });

  test.each<[string, string, readonly string[]]>([
    ["two hops", "form", [`URI=${bar},URI=${bar}`]],
    ["two headers", "form", [`URI=${bar}`, `URI=${bar}`]],
    ["two headers with quotation marks", "form", [`URI=${bar};Hash="a"`, `By="b";URI=${bar}`]],
    ["two URIs", "form", [`URI=${bar};URI=${bar}`]],
    ["two certificates", "form", [`${certificate(barPem)};${certificate(barPem)}`]],
    ["neither certificate nor URI", "form", ["Hash=ab"]],
    ["nothing", "form", [""]],
    ["junk", "form", ["junk"]],
    ["a key that nobody knows", "form", [`URI=${bar};Path=x`]],
    ["a key in another case", "form", [`uri=${bar}`]],
    ["an open quotation", "form", [`URI=${bar};Subject="x`]],
    ["too much", "form", [`URI=${bar};Subject="${"x".repeat(13_000)}"`]],
    ["a certificate without quotation marks", "form", [certificate(barPem).replaceAll('"', "")]],
    ["a certificate that is none", "form", ['Cert="junk"']],
    ["an empty certificate", "form", ['Cert=""']],
    ["a certificate with a broken code", "form", [certificate(barPem).replace("%20", "%2")]],
    ["two PEM blocks", "form", [certificate(barPem + barPem)]],
    ["a certificate of another key", "authority", [certificate(forged)]],
    ["a URI that is not the certificate's", "subject", [`${certificate(barPem)};URI=${bar}2`]],
    ["a URI of another kind", "subject", ["URI=https://cluster.local/ns/foo/sa/bar"]],
    ["another trust domain", "subject", ["URI=spiffe://other.local/ns/foo/sa/bar"]],
    ["a trust domain alone", "subject", ["URI=spiffe://cluster.local"]],
    ["a URI in quotation marks", "subject", [`URI="${bar}"`]],
    ["a coded URI", "subject", ["URI=spiffe://cluster.local/ns/foo/sa/b%61r"]],
    ["a namespace that is not its issuer's", "namespace", ["URI=spiffe://cluster.local/ns/x/sa/y"]],
    ["a certificate of such a namespace", "namespace", [certificate(elsewherePem)]],
  ])("is not believed with %s, whatever its table says", async (_, check, forwarded) => {
    expect(await refusalOf(() => ofEnvoy(...forwarded))).toEqual({
      reason: "credential-rejected",
      check,
    });
    expect(await refusalOf(() => ofGateway(...forwarded))).toMatchObject({
      reason: "credential-rejected",
    });
  });
});

test.each<[string, Caller, readonly string[]]>([
  ["is not listed", callerOf({ namespace: "foo", name: "other" }, issuerA), [certificate(barPem)]],
  ["is another issuer's", callerOf(gateway, issuerB), [certificate(barPem)]],
  ["lost the header on its way", callerOf(gateway, issuerA), []],
])("nobody gets the identity of a gateway that %s", async (_, caller, forwarded) => {
  const headers = new Headers({ "x-rampart-forwards": "certificate" });
  expect(await refusalOf(() => callOf(caller, headers, forwarded))).toEqual({
    reason: "credential-rejected",
    check: "gateway",
  });
});

test.each<[string, Error, object]>([
  ["no credential", new CaError({ reason: "credential-missing" }, ""), { check: "gateway" }],
  ["a refused one", rejectCredential("audience", "x"), { check: "gateway" }],
  ["keys away", keysAway, keysAway.refusal],
])("a gateway with %s is told apart from its client", async (_, error, expected) => {
  const headers = new Headers({ "x-forwarded-client-cert": certificate(barPem) });
  const authenticate = () => Promise.reject(error);
  const trust = { trustDomain: clusterLocal, verify };
  const ask = () => acceptingForwardedCertificates(trust, authenticate)({ headers }, now);
  await expect(ask()).rejects.toBe(error);
  headers.set("x-rampart-forwards", "certificate");
  expect(await refusalOf(ask)).toMatchObject(expected);
});

test("a gateway's client with a certificate of another key is to blame itself", async () => {
  const headers = new Headers({ "x-rampart-forwards": "certificate" });
  const call = () => callOf(callerOf(gateway, issuerA), headers, [certificate(forged)]);
  expect(await refusalOf(call)).toMatchObject({ check: "authority" });
});

describe("the header is ignored from a caller that is no gateway:", () => {
  test.each<[string, Caller]>([
    ["a workload's", callerOf({ namespace: "foo", name: "mallory" }, issuerA)],
    ["of that account at another issuer", callerOf(gateway, issuerB)],
    ["of that account by its certificate", callerOf(gateway)],
  ])("%s", async (_, caller) => {
    for (const header of [`URI=${bar}`, "junk"]) {
      expect(await callWith(caller, header)).toEqual(caller);
    }
  });
});

test("gateways of one account in two clusters are two, and nobody else is any", async () => {
  const accountOf = {
    "Bearer a": gateway,
    "Bearer b": gateway,
    "Bearer x": { ...gateway, name: "x" },
  };
  const issuerOf = { "Bearer a": issuerA, "Bearer b": issuerOfEnvoys, "Bearer x": issuerA };
  const authenticate: Authenticator = async ({ headers }) => {
    const token = `${headers.get("authorization")}` as keyof typeof accountOf;
    if (token in accountOf) return callerOf(accountOf[token], issuerOf[token]);
    throw rejectCredential("signature", "no");
  };
  const named = (token: string) => provedGateway(authenticate, token, now);
  const names = await Promise.all(["Bearer a", "Bearer b"].map(named));
  expect(new Set(names.filter((name) => name !== undefined)).size).toBe(2);
  expect(await Promise.all(["Bearer x", "Bearer c"].map(named))).toEqual([undefined, undefined]);
  await expect(
    provedGateway(() => Promise.reject(new Error("a fault")), "", now),
  ).rejects.toThrow();
});
