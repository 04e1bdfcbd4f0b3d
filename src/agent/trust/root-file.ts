import { readFile } from "node:fs/promises";
import { parseCertificates } from "../identity/certificate-text.ts";
import { IssuanceError } from "../issuance/issuance-error.ts";

/**
 * The roots that a TLS connection rests on, PEM.
 *
 * @throws IssuanceError for a file that cannot be read, or holds no certificate: Node takes an empty
 *   list of roots for the system's.
 */
export async function readRootFile(file: string): Promise<string> {
  const pem = await readFile(file, "utf8").catch((error: unknown) => {
    const detail = `the roots for the connection cannot be read from ${file}`;
    throw new IssuanceError("authority-unreachable", detail, error);
  });
  if (parseCertificates(pem).length > 0) return pem;
  throw new IssuanceError("authority-unreachable", `${file} holds no root for the connection`);
}
