import "reflect-metadata/lite";
import {
  BasicConstraintsExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";

/** The certificate and key of a server that only a test trusts, PEM. */
export interface TlsIdentity {
  readonly key: string;
  /** The certificate, which is its own root. */
  readonly ca: string;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** An identity for 127.0.0.1 without a DNS name. @param isCa Whether a bundle may have it as a root. */
export async function createTlsIdentity(isCa = false): Promise<TlsIdentity> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: "01",
    // OpenSSL tells roots without key identifiers apart by their names.
    name: isCa ? `CN=${crypto.randomUUID()}` : "CN=kubernetes",
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new SubjectAlternativeNameExtension([{ type: "ip", value: "127.0.0.1" }]),
      ...(isCa ? [new BasicConstraintsExtension(true, undefined, true)] : []),
    ],
  });
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
  const key = `-----BEGIN PRIVATE KEY-----\n${pkcs8.toString("base64")}\n-----END PRIVATE KEY-----\n`;
  return { key, ca: `${certificate.toString("pem")}\n` };
}
