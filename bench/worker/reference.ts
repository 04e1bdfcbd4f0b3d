import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import { jwtVerify } from "jose";
import type { Credentials } from "./crypto-floor.ts";

/**
 * The same work, written straightforwardly with @peculiar/x509's generators and jose, for comparison.
 */
export async function createReference(
  { token, csrPem }: Credentials,
  tokenKey: CryptoKey,
): Promise<() => Promise<string>> {
  const keys = (await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    keys,
    name: "O=cluster.local",
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return async () => {
    const { payload } = await jwtVerify(token, tokenKey, { algorithms: ["RS256"] });
    const csr = new x509.Pkcs10CertificateRequest(csrPem);
    if (!(await csr.verify())) throw new Error("the reference's CSR does not verify");
    const leaf = await x509.X509CertificateGenerator.create({
      issuer: root.subject,
      subject: "",
      publicKey: csr.publicKey,
      signingKey: keys.privateKey,
      extensions: [
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([
          x509.ExtendedKeyUsage.serverAuth,
          x509.ExtendedKeyUsage.clientAuth,
        ]),
        new x509.BasicConstraintsExtension(false, undefined, true),
        await x509.SubjectKeyIdentifierExtension.create(csr.publicKey),
        await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
        new x509.SubjectAlternativeNameExtension(
          [{ type: "url", value: `spiffe://cluster.local/${payload.sub}` }],
          true,
        ),
      ],
    });
    return leaf.toString("pem");
  };
}
