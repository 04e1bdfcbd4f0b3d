import { readFile } from "node:fs/promises";
import { parseCertificates } from "../identity/certificate-text.ts";
import { IssuanceError } from "../issuance/issuance-error.ts";

/**
 * Reads the roots for a TLS connection, PEM.
 *
 * @throws IssuanceError for a file that cannot be read or holds no certificate. Node would take an empty
 *   list for the system's roots.
 */
export async function readRootFile(file: string): Promise<string> {
  const pem = await readFile(file, "utf8").catch((error: unknown) => {
    const detail = `the roots for the connection cannot be read from ${file}`;
    throw new IssuanceError("authority-unreachable", detail, error);
  });
  if (parseCertificates(pem).length > 0) return pem;
  throw new IssuanceError("authority-unreachable", `${file} holds no root for the connection`);
}
