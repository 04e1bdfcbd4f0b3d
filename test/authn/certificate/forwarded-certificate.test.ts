import { describe, expect, test } from "vitest";
import type { Authenticator } from "../../../src/authn/authenticator.ts";
import type { Caller } from "../../../src/authn/caller.ts";
import { acceptingForwardedCertificates } from "../../../src/authn/certificate/forwarded-certificate.ts";
import type { TrustedIssuer } from "../../../src/authn/trusted-issuer.ts";
import { workloadSpiffeId } from "../../../src/pki/spiffe-id.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { trustedIssuer } from "../../testkit/callers/trusted-issuers.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00Z");
const gateway = { namespace: "istio-system", name: "rampart-gateway" };
const isGateway = (account: typeof gateway): boolean =>
  account.namespace === gateway.namespace && account.name === gateway.name;

const key = await createTokenKey("ES256", "k1");
const issuerA = trustedIssuer("https://a.test", [key], {
  namespaces: ["foo", "istio-system"],
  gatewayNames: (account) => (isGateway(account) ? ["istiod.istio-system.svc"] : undefined),
});
const issuerB = trustedIssuer("https://b.test", [key]);

function callerOf(account: typeof gateway, issuer?: TrustedIssuer): Caller {
  return { spiffeId: workloadSpiffeId(clusterLocal, account), account, issuer };
}

function callWith(caller: Caller, ...forwarded: readonly string[]): Promise<Caller> {
  const authenticate: Authenticator = async () => caller;
  const headers = new Headers();
  for (const value of forwarded) headers.append("x-forwarded-client-cert", value);
  return acceptingForwardedCertificates(clusterLocal, authenticate)({ headers }, now);
}

const ofGateway = (...forwarded: readonly string[]) =>
  callWith(callerOf(gateway, issuerA), ...forwarded);
const bar = "spiffe://cluster.local/ns/foo/sa/bar";

describe("a gateway", () => {
  test.each([
    ["a URI alone", `URI=${bar}`],
    ["what Envoy writes", `By=spiffe://cluster.local/ns/x/sa/y;Hash=${"ab".repeat(32)};URI=${bar}`],
    ["a subject in quotation marks", `Hash=ab;Subject="CN=a,O=\\"b\\"";URI=${bar};DNS=a.test`],
  ])("speaks for its client with %s", async (_, header) => {
    expect(await ofGateway(header)).toEqual({
      spiffeId: bar,
      account: { namespace: "foo", name: "bar" },
      gateway: "spiffe://cluster.local/ns/istio-system/sa/rampart-gateway",
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
    ["no URI", "form", ["Hash=ab"]],
    ["nothing", "form", [""]],
    ["junk", "form", ["junk"]],
    ["a key that nobody knows", "form", [`URI=${bar};Path=x`]],
    ["a key in another case", "form", [`uri=${bar}`]],
    ["an open quotation", "form", [`URI=${bar};Subject="x`]],
    ["too much", "form", [`URI=${bar};Subject="${"x".repeat(5000)}"`]],
    ["a URI of another kind", "subject", ["URI=https://cluster.local/ns/foo/sa/bar"]],
    ["another trust domain", "subject", ["URI=spiffe://other.local/ns/foo/sa/bar"]],
    ["a trust domain alone", "subject", ["URI=spiffe://cluster.local"]],
    ["a URI in quotation marks", "subject", [`URI="${bar}"`]],
    ["a coded URI", "subject", ["URI=spiffe://cluster.local/ns/foo/sa/b%61r"]],
    ["a namespace that is not its issuer's", "namespace", ["URI=spiffe://cluster.local/ns/x/sa/y"]],
  ])("is not believed with %s", async (_, check, forwarded) => {
    expect(await refusalOf(() => ofGateway(...forwarded))).toEqual({
      reason: "credential-rejected",
      check,
    });
  });
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
