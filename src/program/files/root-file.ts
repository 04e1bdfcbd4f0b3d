import { OperatorError } from "../../foundation/operator-error.ts";
import { certificateBlocks } from "../../pki/encoding/pem.ts";
import { parseCertificate } from "./certificates.ts";
import { readPemFile } from "./pem-file.ts";

/**
 * Reads the roots that authenticate a server, PEM.
 *
 * @returns `undefined` where no file is named: the roots of the system.
 * @throws OperatorError for a file that cannot be read, holds no certificate, or holds a damaged one:
 *   OpenSSL would silently trust fewer roots.
 */
export async function readRootFile(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  const pem = await readPemFile(path);
  const blocks = certificateBlocks(pem);
  if (blocks.length === 0) throw new OperatorError(`${path} holds no certificate`);
  if (!blocks.every(parseCertificate)) {
    throw new OperatorError(`${path} holds a certificate that cannot be read`);
  }
  return pem;
}
