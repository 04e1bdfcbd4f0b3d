import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CertificateVerifier } from "../../src/authn/certificate-verifier.ts";
import { NewAuthority } from "../../src/pki/authority/new-authority.ts";
import type { SigningAuthority } from "../../src/pki/authority/signing-authority.ts";
import { Hex } from "../../src/pki/encoding/bytes.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { Certificate } from "../../src/pki/x509/certificate.ts";
import { IdentityProof } from "../../src/pki/x509/leaf/identity-proof.ts";
import { addSeconds, wholeSeconds } from "../../src/pki/x509/validity.ts";
import { scheduleAfter } from "../testkit/ca/sealed-authorities.ts";
import {
  claimsIssuerWithoutKeys,
  tokenIssuerWithoutKeys,
} from "../testkit/callers/token-issuers.ts";
import { cryptoProviders } from "../testkit/crypto-providers.ts";
import { clusterLocal, oneDay, tenDays } from "../testkit/pki/certificates.ts";
import { type LeafSigner, signClientLeaf } from "../testkit/pki/client-leaf.ts";
import { leafUnder } from "../testkit/pki/held-leaf.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-03-02T12:00:00Z");
const bar = "spiffe://cluster.local/ns/foo/sa/bar";
const keys = ["EC-P256", "EC-P384", "RSA-2048"] as const;

interface Own {
  readonly authority: SigningAuthority;
  readonly signer: LeafSigner;
}

async function own(key: (typeof keys)[number]): Promise<Own> {
  const { authority, extractablePrivateKey } = await NewAuthority.create(
    clusterLocal,
    key,
    tenDays,
  );
  const { der } = authority.certificate;
  return { authority, signer: { certificate: der, privateKey: extractablePrivateKey } };
}

const [first, second, rsa] = await Promise.all(keys.map(own));
if (!first || !second || !rsa) throw new Error("no authorities");

const issuers = [
  tokenIssuerWithoutKeys("https://a.test", { namespaces: ["foo", "shop-*"] }),
  tokenIssuerWithoutKeys("https://b.test", { namespaces: ["istio-system"] }),
];

/** The certificates of the second authority are revoked then. */
const secondRevokedAt = addSeconds(now, 60);

describe.each(cryptoProviders)("with %s, a client certificate", (_, cryptoProvider) => {
  const verifierOf = (...authorities: readonly Own[]) =>
    CertificateVerifier.create({
      trustDomain: clusterLocal,
      vouchingAt: async () => authorities.map(({ authority }) => authority),
      isRevoked: async ({ authority }, now) =>
        authority === second.authority.id && now >= secondRevokedAt,
      issuers,
      cryptoProvider,
    });
  const verify = verifierOf(first, second, rsa);
  const leafOf = (signer: LeafSigner, spiffeId = bar) => signClientLeaf(signer, spiffeId, oneDay);

  test("that does not say which of the authorities of one name has signed it is judged by each", async () => {
    for (const { authority, signer } of [first, second, rsa]) {
      const der = await signClientLeaf(signer, bar, { ...oneDay, hasKeyIdentifier: false });
      expect((await verify(der, now)).certificate).toMatchObject({ authority: authority.id });
    }
    const stranger = await signClientLeaf((await own("EC-P256")).signer, bar, {
      ...oneDay,
      hasKeyIdentifier: false,
    });
    expect(await refusalOf(() => verify(stranger, now))).toMatchObject({ check: "authority" });
  });

  test("is none once it is revoked", async () => {
    const der = await leafOf(second.signer);
    await expect(verify(der, secondRevokedAt)).rejects.toMatchObject({
      refusal: { reason: "credential-rejected", check: "revoked" },
    });
    await expect(verify(await leafOf(first.signer), secondRevokedAt)).resolves.toBeTruthy();
  });

  test.each([
    ["of the first", first, "SHA-256"],
    ["of another", second, "SHA-384"],
    ["with RSA", rsa, "SHA-256"],
    ["with another hash that its key may use", rsa, "SHA-512"],
  ])(
    "is a credential under an authority that vouches: %s",
    async (_, { authority, signer }, hash) => {
      const der = await leafOf({ ...signer, hash });
      expect(await verify(der, now)).toEqual({
        spiffeId: bar,
        account: { namespace: "foo", name: "bar" },
        proof: {
          provedAt: oneDay.notBefore,
          issuer: IdentityProof.issuerDigest("https://a.test"),
          isImpersonated: false,
        },
        provedUntil: addSeconds(oneDay.notBefore, 720 * 3600),
        provedBy: issuers[0],
        certificate: {
          authority: authority.id,
          serialNumber: Hex.format(Certificate.parse(der).toBeSigned.serialNumber),
        },
      });
    },
  );

  const refusals: readonly [string, string, () => Promise<Uint8Array<ArrayBuffer>>][] = [
    ["SHA-1", "authority", async () => leafOf(await withSha1(rsa.signer))],
    [
      "no issuer that may vouch for its namespace now",
      "namespace",
      async () => leafOf(first.signer, "spiffe://cluster.local/ns/gone/sa/bar"),
    ],
  ];

  test.each(refusals)("is none with %s", async (_, check, leaf) => {
    const der = await leaf();
    expect(await refusalOf(() => verify(der, now))).toEqual({
      reason: "credential-rejected",
      check,
    });
  });

  test("is none once its authority vouches no more", async () => {
    const der = await leafOf(first.signer);
    for (const others of [[], [second], [second, rsa]]) {
      const refusal = await refusalOf(() => verifierOf(...others)(der, now));
      expect(refusal).toEqual({ reason: "credential-rejected", check: "authority" });
    }
  });

  test("is none with any octet changed", async () => {
    const der = await leafOf(first.signer);
    await fc.assert(
      fc.asyncProperty(
        fc.nat(der.length - 1),
        fc.integer({ min: 1, max: 255 }),
        async (at, difference) => {
          const other = der.map((octet, i) => (i === at ? octet ^ difference : octet));
          const refusal = await refusalOf(() => verify(other, now));
          expect(refusal.reason).toBe("credential-rejected");
        },
      ),
      { numRuns: 150 },
    );
  });

  test("is none that any other key has signed, whatever it says", async () => {
    const stranger = await own("EC-P256");
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(first, second, rsa, stranger),
        fc.constantFrom(...["foo", "shop-a", "istio-system", "kube-system"]),
        fc.stringMatching(/^[a-z]{1,12}$/),
        async ({ signer: { certificate } }, namespace, name) => {
          const { privateKey } = stranger.signer;
          const spiffeId = `spiffe://cluster.local/ns/${namespace}/sa/${name}`;
          const der = await leafOf({ certificate, privateKey }, spiffeId);
          const refusal = await refusalOf(() => verify(der, now));
          expect(refusal).toMatchObject({ check: "authority" });
        },
      ),
      { numRuns: 16 },
    );
  });
});

test("a certificate without a proof counts for the first issuer that may vouch, and no other", async () => {
  const elsewhere = tokenIssuerWithoutKeys("https://c.test", { namespaces: ["shop"] });
  const short = tokenIssuerWithoutKeys("https://d.test", { renewalSeconds: 60 });
  const long = tokenIssuerWithoutKeys("https://e.test", { renewalSeconds: 3600 });
  const der = await signClientLeaf(first.signer, bar, oneDay);
  const verify = CertificateVerifier.create({
    trustDomain: clusterLocal,
    vouchingAt: async () => [first.authority],
    isRevoked: async () => false,
    // istiod has given a certificate to no token of a table of claims.
    issuers: [elsewhere, claimsIssuerWithoutKeys("https://f.test"), short, long],
    cryptoProvider: webCryptoProvider,
  });
  const caller = await verify(der, addSeconds(oneDay.notBefore, 59));
  expect(caller).toMatchObject({ provedBy: short, mayBeProvedBy: [short, long] });
  const late = () => verify(der, addSeconds(oneDay.notBefore, 60));
  expect(await refusalOf(late)).toEqual({ reason: "credential-rejected", check: "renewal" });
});

test("a certificate with a proof counts for its issuer alone, by a token of its own, and by an entry that is there", async () => {
  const provedAt = wholeSeconds(new Date());
  const schedule = scheduleAfter(provedAt, [-7200, -3600, 7200, 9000]);
  const created = await NewAuthority.create(clusterLocal, "EC-P256", schedule);
  const issuers = ["https://a.test", "https://b.test"].map((name) => tokenIssuerWithoutKeys(name));
  const verify = CertificateVerifier.create({
    trustDomain: clusterLocal,
    vouchingAt: async () => [created.authority],
    isRevoked: async () => false,
    issuers: [...issuers, claimsIssuerWithoutKeys("https://c.test")],
    cryptoProvider: webCryptoProvider,
  });
  const withProof = async (issuer: string, isImpersonated = false) => {
    const proof = { provedAt, issuer: IdentityProof.issuerDigest(issuer), isImpersonated };
    return verify((await leafUnder(created, bar, proof)).der, new Date());
  };
  const caller = await withProof("https://b.test");
  expect(caller.provedBy).toBe(issuers[1]);
  expect(caller).not.toHaveProperty("mayBeProvedBy");
  const impersonated = () => withProof("https://b.test", true);
  expect(await refusalOf(impersonated)).toMatchObject({ check: "impersonation" });
  const gone = () => withProof("an entry that is gone");
  expect(await refusalOf(gone)).toMatchObject({ check: "issuer" });
});

/** WebCrypto binds an RSA key to one hash. */
async function withSha1({ certificate, privateKey }: LeafSigner): Promise<LeafSigner> {
  const pkcs8 = await crypto.subtle.exportKey("pkcs8", privateKey);
  const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-1" };
  const key = await crypto.subtle.importKey("pkcs8", pkcs8, algorithm, true, ["sign"]);
  return { certificate, privateKey: key, hash: "SHA-1" };
}
