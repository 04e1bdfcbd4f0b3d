import { readFile } from "node:fs/promises";

/**
 * The roots that a TLS connection rests on, PEM; nothing where no file is named.
 *
 * @throws Error for a file that cannot be read, or holds no certificate: Node takes an empty list of
 *   roots for the system's.
 */
export async function readRootFile(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const pem = await readFile(file, "utf8");
  if (pem.includes("-----BEGIN CERTIFICATE-----")) return pem;
  throw new Error(`${file} holds no certificate`);
}
