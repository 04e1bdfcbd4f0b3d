import { type AuthorityKey, NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import type { Schedule } from "../../../src/pki/authority/schedule.ts";
import {
  type OpenAuthority,
  SigningAuthority,
} from "../../../src/pki/authority/signing-authority.ts";
import { SignatureAlgorithm } from "../../../src/pki/signature-algorithm.ts";
import { SpiffeId, TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { webSigningKey } from "../../../src/pki/web-crypto.ts";
import type { Certificate } from "../../../src/pki/x509/certificate.ts";
import { IdentityProof } from "../../../src/pki/x509/leaf/identity-proof.ts";
import type { Validity } from "../../../src/pki/x509/validity.ts";
import { der, hex } from "../der/mutation.ts";

export function trustDomain(name: string): TrustDomain {
  const parsed = TrustDomain.parse(name);
  if (!parsed) throw new Error(`no trust domain: ${name}`);
  return parsed;
}

export const clusterLocal: TrustDomain = trustDomain("cluster.local");

export const workload = (namespace: string, name: string, domain = clusterLocal): SpiffeId =>
  SpiffeId.ofWorkload(domain, { namespace, name });

export const schedule = (from: string, until: string): Schedule => ({
  publishedFrom: new Date(from),
  signsFrom: new Date(from),
  signsUntil: new Date(until),
  retiresAt: new Date(until),
});

/** A schedule of ten days, around the instants of the tests. */
export const tenDays: Schedule = schedule("2026-03-01T00:00:00.000Z", "2026-03-11T00:00:00.000Z");

export const oneDay: Validity = {
  notBefore: new Date("2026-03-02T00:00:00.000Z"),
  notAfter: new Date("2026-03-03T00:00:00.000Z"),
};

/** A proof by a token of an issuer. */
export const proved: IdentityProof = {
  provedAt: new Date("2026-03-01T12:34:56.000Z"),
  issuer: IdentityProof.issuerDigest("https://a.test"),
  isImpersonated: false,
};

const made = new Map<AuthorityKey, Promise<NewAuthority>>();

/** An authority of ten days. All tests of a worker share those of RSA, whose keys are slow to find. */
export function authorityOf(key: AuthorityKey): Promise<NewAuthority> {
  const authority = made.get(key) ?? NewAuthority.create(clusterLocal, key, tenDays);
  if (key.startsWith("RSA")) made.set(key, authority);
  return authority;
}

export async function createTestIssuer(
  key: AuthorityKey = "EC-P256",
  phases: Schedule = tenDays,
): Promise<OpenAuthority> {
  const { authority, extractablePrivateKey } = await (phases === tenDays
    ? authorityOf(key)
    : NewAuthority.create(clusterLocal, key, phases));
  const algorithm = SignatureAlgorithm.of(authority.publicKey);
  return SigningAuthority.open(authority, webSigningKey(extractablePrivateKey, algorithm));
}

/** An authority with the fields that bundles and rotation read, and an empty certificate. */
export function authorityStub(
  id: string,
  phases: Schedule,
  roots: readonly string[],
): SigningAuthority {
  const nothing = der(0x30, hex(""));
  const certificate = { der: nothing, toBeSigned: undefined } as unknown as Certificate;
  const publicKey = { algorithm: "EC-P256", spki: nothing, keyOctets: nothing } as const;
  return { id, certificate, publicKey, intermediates: [], roots: roots.map(hex), schedule: phases };
}
