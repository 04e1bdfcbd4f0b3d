import { join } from "node:path";
import type { SecureContextOptions } from "node:tls";
import { parseCertificates } from "../../program/files/certificates.ts";
import { readPemFile } from "../../program/files/pem-file.ts";
import { readRootFile } from "../../program/files/root-file.ts";

/** The files that authenticate both sides of a TLS connection. Each connection reads them anew. */
export interface ConnectionFiles {
  /** A PEM file, or `undefined` for the roots of the system. */
  readonly rootFile: string | undefined;
  /** The agent never sends a client certificate that has expired or cannot be read. */
  readonly clientCertificate: { readonly key: string; readonly chain: string } | undefined;
  /** The name that the server's certificate must have, if that is not the host. */
  readonly serverName: string | undefined;
}

/** A client certificate as Istio names its files. */
export function clientCertificateIn(folder: string): {
  readonly key: string;
  readonly chain: string;
} {
  return { key: join(folder, "key.pem"), chain: join(folder, "cert-chain.pem") };
}

/** The options of a TLS connection. */
export type ConnectionTls = SecureContextOptions & { readonly servername?: string };

/** @throws OperatorError when the roots cannot be read. */
export async function readConnectionTls(
  { rootFile, clientCertificate, serverName }: ConnectionFiles,
  now: Date,
): Promise<ConnectionTls> {
  const ca = await readRootFile(rootFile);
  return {
    minVersion: "TLSv1.2",
    ...(ca !== undefined && { ca }),
    ...(serverName !== undefined && { servername: serverName }),
    ...(clientCertificate && (await readClientCertificate(clientCertificate, now))),
  };
}

async function readClientCertificate(
  files: { readonly key: string; readonly chain: string },
  now: Date,
): Promise<{ key: string; cert: string } | undefined> {
  const [key, cert] = await Promise.all([
    readPemFile(files.key).catch(() => undefined),
    readPemFile(files.chain).catch(() => undefined),
  ]);
  const leaf = parseCertificates(cert ?? "")[0];
  const isCurrent = leaf !== undefined && now < leaf.validToDate;
  return key !== undefined && cert !== undefined && isCurrent ? { key, cert } : undefined;
}
