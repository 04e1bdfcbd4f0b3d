import "reflect-metadata/lite";
import { X509CertificateGenerator } from "@peculiar/x509";
import { expect, test } from "vitest";
import { SvidChain } from "../../../src/pki/path/svid-chain.ts";

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
