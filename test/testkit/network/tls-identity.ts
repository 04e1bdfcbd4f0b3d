import "reflect-metadata/lite";
import { SubjectAlternativeNameExtension, X509CertificateGenerator } from "@peculiar/x509";

/** What a server of this machine shows, and only a test believes; PEM. */
export interface TlsIdentity {
  readonly key: string;
  /** Its certificate, which is what to trust, too. */
  readonly ca: string;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** For 127.0.0.1 and no name. */
export async function createTlsIdentity(): Promise<TlsIdentity> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: "01",
    name: "CN=kubernetes",
    keys,
    signingAlgorithm: algorithm,
    extensions: [new SubjectAlternativeNameExtension([{ type: "ip", value: "127.0.0.1" }])],
  });
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
  const key = `-----BEGIN PRIVATE KEY-----\n${pkcs8.toString("base64")}\n-----END PRIVATE KEY-----\n`;
  return { key, ca: `${certificate.toString("pem")}\n` };
}
