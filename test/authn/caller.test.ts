import { expect, test } from "vitest";
import { Authenticator } from "../../src/authn/caller.ts";
import { CertificateVerifier } from "../../src/authn/certificate-verifier.ts";
import { createTokenAuthenticator } from "../../src/authn/token-authenticator.ts";
import type { TokenIssuer } from "../../src/authn/token-issuer.ts";
import { CaError, rejectCredential } from "../../src/foundation/errors.ts";
import { TrustDomain } from "../../src/pki/spiffe-id.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { tokenIssuerWithoutKeys } from "../testkit/callers/token-issuers.ts";
import { refusalOf } from "../testkit/refusal.ts";

const trustDomain = TrustDomain.parse("cluster.local") as TrustDomain;
const review: TokenIssuer["review"] = {
  order: "after-keys",
  ask: () => Promise.reject(new Error("nobody is asked here")),
};

const verifierFor = (issuer: TokenIssuer) =>
  CertificateVerifier.create({
    trustDomain,
    vouchingAt: async () => [],
    isRevoked: async () => false,
    issuers: [issuer],
    cryptoProvider: webCryptoProvider,
  });

test.each([
  ["its keys", tokenIssuerWithoutKeys("https://a.test")],
  ["a review", tokenIssuerWithoutKeys("https://a.test", { review })],
])(
  "a bad certificate is the reason of the refusal if there is no token for %s to prove",
  async (_, issuer) => {
    const authenticate = Authenticator.certificateFirst(
      verifierFor(issuer),
      createTokenAuthenticator(trustDomain, [issuer]),
    );
    const credentials = { headers: new Headers(), clientCertificate: new Uint8Array([0x30, 0]) };
    const refusal = await refusalOf(() => authenticate(credentials, new Date()));
    expect(refusal).toMatchObject({ reason: "credential-rejected", check: "form" });
  },
);

test("a caller without a certificate is known by its token alone", async () => {
  const authenticate = Authenticator.certificateFirst(
    () => Promise.reject(new Error("not asked")),
    createTokenAuthenticator(trustDomain, []),
  );
  const refusal = await refusalOf(() => authenticate({ headers: new Headers() }, new Date()));
  expect(refusal).toEqual({ reason: "credential-missing" });
});

test("a fault of the verification is no bad certificate, beside which a token would count", async () => {
  const authenticate = Authenticator.certificateFirst(
    () => Promise.reject(new Error("a fault of ours")),
    () => Promise.reject(new Error("the token was asked")),
  );
  const credentials = { headers: new Headers(), clientCertificate: new Uint8Array() };
  await expect(authenticate(credentials, new Date())).rejects.toThrow("a fault of ours");
});

test("of a bad certificate and a token that fails, the token is the reason, so that its caller tries again", async () => {
  const outage = new CaError({ reason: "key-provider-unreachable", issuer: "https://a.test" }, "");
  const authenticate = Authenticator.certificateFirst(
    () => Promise.reject(rejectCredential("form", "no certificate")),
    () => Promise.reject(outage),
  );
  const credentials = { headers: new Headers(), clientCertificate: new Uint8Array() };
  expect(await refusalOf(() => authenticate(credentials, new Date()))).toEqual(outage.refusal);
});
