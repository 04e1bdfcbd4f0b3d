import "reflect-metadata/lite";
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import {
  BasicConstraintsExtension,
  type Extension,
  type Name,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
  X509Certificate as X509Reader,
} from "@peculiar/x509";
import type { SpiffeBundle } from "../../../src/program/bundle/spiffe-bundle.ts";

/** A bundle with the roots of these authorities. */
export const bundleOf = (
  sequence: number,
  ...authorities: readonly { readonly certificate: X509Certificate }[]
): SpiffeBundle => ({
  sequence,
  refreshSeconds: 300,
  jwtKeys: [],
  roots: authorities.map(({ certificate }) => certificate),
});

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** Differences from the usual leaf. */
interface LeafOverrides {
  readonly names?: readonly string[];
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  readonly isCa?: boolean;
  /** DNS names, in place of SPIFFE IDs. */
  readonly hosts?: readonly string[];
  readonly extensions?: readonly Extension[];
}

/** A CA for tests. It signs with a library that the agent does not use. */
export interface TestAuthority {
  readonly pem: string;
  readonly certificate: X509Certificate;
  issue(spiffeId: string, publicKey: KeyObject, overrides?: LeafOverrides): Promise<string>;
  intermediate(name: string): Promise<TestAuthority>;
  /** Certifies the key under its name once more. */
  again(): Promise<TestAuthority>;
}

export const issuedAt: Date = new Date("2026-11-21T12:00:00Z");
export const expiresAt: Date = new Date("2026-11-22T12:00:00Z");
const years = {
  notBefore: new Date("2026-01-01T00:00:00Z"),
  notAfter: new Date("2036-01-01T00:00:00Z"),
};

/** @param spiffeId The SPIFFE ID of the authority itself, if it has one. */
export async function createTestAuthority(
  name = "root",
  spiffeId?: string,
): Promise<TestAuthority> {
  const keys = await generate();
  const root = await X509CertificateGenerator.createSelfSigned({
    ...years,
    name: `O=${name}`,
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      ...(spiffeId === undefined
        ? []
        : [new SubjectAlternativeNameExtension([{ type: "url", value: spiffeId }])]),
    ],
  });
  return authorityOf(`O=${name}`, root.toString("pem"), keys.privateKey);
}

/** An authority that somebody else made, from the files of its certificate and its EC key. */
export async function authorityIn(certificate: string, key: string): Promise<TestAuthority> {
  const pkcs8 = createPrivateKey(key).export({ type: "pkcs8", format: "der" });
  const imported = crypto.subtle.importKey("pkcs8", pkcs8, algorithm, false, ["sign"]);
  return authorityOf(new X509Reader(certificate).subjectName, certificate, await imported);
}

const generate = (): Promise<CryptoKeyPair> =>
  crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]) as Promise<CryptoKeyPair>;

function authorityOf(issuer: string | Name, pem: string, signingKey: CryptoKey): TestAuthority {
  const create = async (subject: string, key: CryptoKey, extensions: object[], validity: object) =>
    (
      await X509CertificateGenerator.create({
        ...validity,
        subject,
        issuer,
        signingKey,
        publicKey: key,
        signingAlgorithm: algorithm,
        extensions: extensions as SubjectAlternativeNameExtension[],
      })
    ).toString("pem");
  return {
    pem: `${pem}\n`,
    certificate: new X509Certificate(pem),
    async issue(spiffeId, publicKey, overrides = {}) {
      const { hosts = [], names = hosts.length > 0 ? [] : [spiffeId], isCa = false } = overrides;
      const { notBefore = issuedAt, notAfter = expiresAt } = overrides;
      const values = [
        ...hosts.map((value) => ({ type: "dns" as const, value })),
        ...names.map((value) => ({ type: "url" as const, value })),
      ];
      const extensions = [
        new SubjectAlternativeNameExtension(values, true),
        new BasicConstraintsExtension(isCa, undefined, true),
        ...(overrides.extensions ?? []),
      ];
      const key = await toCryptoKey(publicKey);
      return `${await create("", key, extensions, { notBefore, notAfter })}\n`;
    },
    async intermediate(name) {
      const keys = await generate();
      const extensions = [new BasicConstraintsExtension(true, 0, true)];
      const certificate = await create(`O=${name}`, keys.publicKey, extensions, years);
      return authorityOf(`O=${name}`, certificate, keys.privateKey);
    },
    async again() {
      const { subject, publicKey } = new X509Certificate(pem);
      const extensions = [new BasicConstraintsExtension(true, undefined, true)];
      const certificate = await create(subject, await toCryptoKey(publicKey), extensions, years);
      return authorityOf(issuer, certificate, signingKey);
    },
  };
}

function toCryptoKey(key: KeyObject): Promise<CryptoKey> {
  const spki = key.export({ type: "spki", format: "der" });
  return crypto.subtle.importKey("spki", new Uint8Array(spki), algorithm, true, ["verify"]);
}
