import "reflect-metadata/lite";
import {
  BasicConstraintsExtension,
  SubjectAlternativeNameExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { expect, test } from "vitest";
import { SvidChain } from "../../../src/pki/path/svid-chain.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";

const curves = ["P-256", "P-384", "P-521"] as const;

const keysOf = (namedCurve: string): Promise<CryptoKeyPair> =>
  crypto.subtle.generateKey({ name: "ECDSA", namedCurve }, true, ["sign", "verify"]);

test("tells issuers of one name with keys of several curves apart", async () => {
  const name = "O=company";
  const issuers = await Promise.all(
    curves.map(async (curve) => {
      const keys = await keysOf(curve);
      return { keys, root: await X509CertificateGenerator.createSelfSigned({ name, keys }) };
    }),
  );
  const { publicKey } = await keysOf("P-256");
  for (const [i, { keys }] of issuers.entries()) {
    const leaf = await X509CertificateGenerator.create({
      subject: "CN=leaf",
      issuer: name,
      publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    });
    const found = await Promise.all(issuers.map(({ root }) => SvidChain.isIssuedBy(leaf, root)));
    expect(found).toEqual(curves.map((_, j) => i === j));
  }
});

const now = new Date("2026-11-21T12:00:00Z");
const inDays = (days: number): Date => addSeconds(now, days * 86_400);
const [rootKeys, intermediateKeys] = [await keysOf("P-256"), await keysOf("P-256")];
const spiffeId = "spiffe://cluster.local/ns/foo/sa/bar";

interface Changes {
  readonly isCa?: boolean;
  readonly days?: number;
  readonly uris?: readonly string[];
}

/** A certificate of a CA unless it is changed. */
const certificate = (
  [name, keys]: readonly [string, CryptoKeyPair],
  [issuer, { privateKey }]: readonly [string, CryptoKeyPair],
  { isCa = true, days = 10, uris = [] }: Changes = {},
): Promise<X509Certificate> =>
  X509CertificateGenerator.create({
    ...{ subject: `CN=${name}`, issuer: `CN=${issuer}`, publicKey: keys.publicKey },
    ...{ signingKey: privateKey, signingAlgorithm: { name: "ECDSA", hash: "SHA-256" } },
    ...{ notBefore: inDays(-10), notAfter: inDays(days) },
    extensions: [
      new BasicConstraintsExtension(isCa, undefined, true),
      new SubjectAlternativeNameExtension(uris.map((value) => ({ type: "url" as const, value }))),
    ],
  });

const [root, below] = [["root", rootKeys] as const, ["below", intermediateKeys] as const];
const rootOf = (days: number) => certificate(root, root, { days });
const intermediate = (changes?: Changes) => certificate(below, root, changes);
const leaf = (days?: number) => certificate(root, below, { isCa: false, ...(days && { days }) });

test.each<[string, () => readonly Promise<X509Certificate>[], boolean]>([
  ["an intermediate", () => [leaf(), intermediate()], true],
  ["a leaf that has expired", () => [leaf(-1), intermediate()], true],
  ["nothing", () => [], false],
  ["no intermediate", () => [leaf()], false],
  ["an intermediate that is no CA", () => [leaf(), intermediate({ isCa: false })], false],
  ["an intermediate that has expired", () => [leaf(), intermediate({ days: -1 })], false],
  ["an intermediate of another root", () => [leaf(), certificate(below, below)], false],
])("a chain of %s leads to a root, or does not", async (_, links, isLed) => {
  const chain = await Promise.all(links());
  expect(await SvidChain.leadsToRoot(chain, [await rootOf(10)], now)).toBe(isLed);
  expect(await SvidChain.leadsToRoot(chain, [await rootOf(-1)], now)).toBe(false);
});

test.each<[string, Changes, string?]>([
  ["one URI", { uris: [spiffeId] }, spiffeId],
  ["no URI", { uris: [] }],
  ["two URIs", { uris: [spiffeId, `${spiffeId}2`] }],
  ["the rights of a CA", { uris: [spiffeId], isCa: true }],
])("a certificate with %s is an SVID, or is not", async (_, changes, found) => {
  const made = await certificate(root, below, { isCa: false, ...changes });
  expect(SvidChain.spiffeIdOf(made)).toBe(found);
});
