import { FetchError } from "../../foundation/http/json-fetch.ts";
import { parseBase64 } from "../../pki/encoding/base64.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { revocationListBlocks, toPem } from "../../pki/encoding/pem.ts";
import { type Crl, namedIn, parseCrl } from "../../pki/x509/crl/crl.ts";
import type { DocumentKind } from "./document-follower.ts";

/** More authorities than a mesh has at once. */
const maximumLists = 100;

/** The document of `/crl.pem`: a list of each authority. Three hundred thousand entries fit into it. */
export const revocationLists: DocumentKind<readonly Crl[]> = {
  name: "revocation list",
  mediaType: "application/x-pem-file",
  maximumOctets: 16 << 20,
  parse: (octets) => parseRevocationLists(Buffer.from(octets).toString("latin1")),
  // An authority revokes at any time, so an endpoint that holds no answers is asked often.
  refreshSeconds: () => 60,
};

/**
 * The lists in a PEM text.
 *
 * @throws FetchError for a text without a list, with too many, with any other block, or with one that is no list.
 */
export function parseRevocationLists(text: string): readonly Crl[] {
  const blocks = revocationListBlocks(text);
  const begun = text.match(/-----BEGIN /g)?.length ?? 0;
  if (blocks.length === 0 || blocks.length > maximumLists || blocks.length !== begun) {
    throw new FetchError("did not answer certificate revocation lists");
  }
  return blocks.map(parseList);
}

function parseList(base64: string): Crl {
  try {
    const der = parseBase64(base64);
    const list = der && parseCrl(der);
    // Later readers of the entries need not expect a broken one.
    if (list && namedIn(list, new Set()).length === 0) return list;
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new FetchError("answered a broken revocation list", { cause: error });
  }
  throw new FetchError("answered a broken revocation list");
}

/** PEM of lists, each with its last newline; empty for none. */
export function listsPem(lists: readonly Crl[]): string {
  return lists.map(({ der }) => toPem("X509 CRL", der)).join("");
}
