import { FetchError } from "../../foundation/fetch.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { Pem, type PemBlock, PemError } from "../../pki/encoding/pem.ts";
import { Crl } from "../../pki/x509/crl/crl.ts";
import type { DocumentKind } from "./document-follower.ts";

/** More authorities than a mesh has at one time. */
const maximumCrls = 100;

/** The document of `/crl.pem`: a CRL of each authority. Its size allows 300,000 revoked certificates. */
export const crlDocument: DocumentKind<readonly Crl[]> = {
  name: "CRL",
  mediaType: "application/x-pem-file",
  maximumOctets: 16 << 20,
  parse: (octets) => parseCrls(Buffer.from(octets).toString("latin1")),
  // An authority may revoke at any time, so an endpoint without long polling is asked often.
  refreshSeconds: () => 60,
};

/**
 * The CRLs in a PEM text.
 *
 * @throws FetchError for a text without a CRL, with too many, with any other block, or with one that is no CRL.
 */
export function parseCrls(text: string): readonly Crl[] {
  const blocks = blocksIn(text);
  if (blocks.length === 0 || blocks.some(({ label }) => label !== "X509 CRL")) {
    throw new FetchError("did not answer CRLs");
  }
  return blocks.map(parseOne);
}

function blocksIn(text: string): readonly PemBlock[] {
  try {
    return Pem.blocks(text, maximumCrls);
  } catch (error) {
    if (!(error instanceof PemError)) throw error;
    throw new FetchError(`answered a CRL document that ${error.message}`);
  }
}

function parseOne(block: PemBlock): Crl {
  try {
    const der = Base64.parse(Pem.symbols(block));
    const crl = der && Crl.parse(der);
    // Parses every entry here, so that no later reader meets a malformed one.
    if (crl && Crl.named(crl, new Set()).length === 0) return crl;
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new FetchError("answered a broken CRL", { cause: error });
  }
  throw new FetchError("answered a broken CRL");
}

/** PEM of CRLs, each with its last newline; empty for none. */
export function crlsPem(crls: readonly Crl[]): string {
  return crls.map(({ der }) => Pem.format("X509 CRL", der)).join("");
}
