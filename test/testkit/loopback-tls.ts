import "reflect-metadata/lite";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { SubjectAlternativeNameExtension, X509CertificateGenerator } from "@peculiar/x509";
import { onTestFinished } from "vitest";

/** A server of this machine behind a certificate that nobody but a test trusts. */
export interface TlsServer {
  readonly origin: string;
  /** PEM of what to trust. */
  readonly ca: string;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

export async function startTlsServer(listener: RequestListener): Promise<TlsServer> {
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
  const ca = `${certificate.toString("pem")}\n`;
  const server = createServer({ key, cert: ca }, listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, ca };
}
