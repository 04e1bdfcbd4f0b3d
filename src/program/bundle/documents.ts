import type { X509Certificate } from "node:crypto";
import * as z from "zod/mini";
import { FetchError, parseJson } from "../../foundation/fetch.ts";
import { parseBase64 } from "../../pki/encoding/base64.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { crlBlocks, toPem } from "../../pki/encoding/pem.ts";
import { jwtSvidKeysIn, type KeySet } from "../../pki/jose/key-set.ts";
import { type Crl, namedIn, parseCrl } from "../../pki/x509/crl/crl.ts";
import { mayBeRoot, parseCertificate } from "../files/pem-file.ts";
import type { DocumentKind } from "./document-follower.ts";

export interface SpiffeBundle {
  /** 0 if the bundle has none: the standard recommends a sequence and does not demand it. */
  readonly sequence: number;
  /** The refresh hint, or the standard's five minutes if the bundle has none. */
  readonly refreshSeconds: number;
  /** May be empty: then the standard withdraws the trust domain. */
  readonly roots: readonly X509Certificate[];
  /** The keys for JWT-SVIDs; none where the trust domain has no such tokens. */
  readonly jwtKeys: KeySet;
}

export const spiffeBundle: DocumentKind<SpiffeBundle> = {
  name: "bundle",
  mediaType: "application/json",
  maximumOctets: 256 * 1024,
  parse: (octets) => parseSpiffeBundle(textOf(octets)),
  refreshSeconds: ({ refreshSeconds }) => refreshSeconds,
};

const longestRefreshSeconds = 24 * 3600;

const count = z.int().check(z.nonnegative());
const keyForm = z.looseObject({ use: z.optional(z.string()), x5c: z.optional(z.unknown()) });
const form = z.object({
  keys: z.array(keyForm).check(z.maxLength(100)),
  spiffe_sequence: z._default(count, 0),
  spiffe_refresh_hint: z._default(count, 300),
});
const x5cForm = z.tuple([z.string()]);

/**
 * Parses a SPIFFE bundle (SPIFFE Trust Domain and Bundle §4). As the standard demands, it ignores keys of
 * another use, and X.509 keys without a certificate.
 *
 * @throws FetchError for an invalid bundle, and for one with a certificate that is not a CA's.
 */
export function parseSpiffeBundle(text: string): SpiffeBundle {
  const parsed = form.safeParse(parseJson(text));
  if (!parsed.success) throw new FetchError("did not answer a SPIFFE bundle");
  const { keys, spiffe_sequence: sequence, spiffe_refresh_hint: hint } = parsed.data;
  const entries = keys.filter(({ use, x5c }) => use === "x509-svid" && x5c !== undefined);
  return {
    sequence,
    refreshSeconds: Math.min(longestRefreshSeconds, Math.max(1, hint)),
    roots: entries.map(({ x5c }) => parseRoot(x5c)),
    jwtKeys: jwtSvidKeysIn(keys),
  };
}

function parseRoot(x5c: unknown): X509Certificate {
  const { data: [base64] = [] } = x5cForm.safeParse(x5c);
  const root = base64 === undefined ? undefined : parseCertificate(base64);
  if (root && mayBeRoot(root)) return root;
  throw new FetchError("answered a bundle with something else than a CA's certificate");
}

function textOf(octets: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(octets);
  } catch (error) {
    throw new FetchError("did not answer UTF-8", { cause: error });
  }
}

/** More authorities than a mesh has at once. */
const maximumCrls = 100;

/** The document of `/crl.pem`: a CRL of each authority. Three hundred thousand entries fit into it. */
export const crlDocument: DocumentKind<readonly Crl[]> = {
  name: "CRL",
  mediaType: "application/x-pem-file",
  maximumOctets: 16 << 20,
  parse: (octets) => parseCrls(Buffer.from(octets).toString("latin1")),
  // An authority revokes at any time, so an endpoint that holds no answers is asked often.
  refreshSeconds: () => 60,
};

/**
 * The CRLs in a PEM text.
 *
 * @throws FetchError for a text without a CRL, with too many, with any other block, or with one that is no CRL.
 */
export function parseCrls(text: string): readonly Crl[] {
  const blocks = crlBlocks(text);
  const begun = text.match(/-----BEGIN /g)?.length ?? 0;
  if (blocks.length === 0 || blocks.length > maximumCrls || blocks.length !== begun) {
    throw new FetchError("did not answer CRLs");
  }
  return blocks.map(parseOne);
}

function parseOne(base64: string): Crl {
  try {
    const der = parseBase64(base64);
    const crl = der && parseCrl(der);
    // Later readers of the entries need not expect a broken one.
    if (crl && namedIn(crl, new Set()).length === 0) return crl;
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new FetchError("answered a broken CRL", { cause: error });
  }
  throw new FetchError("answered a broken CRL");
}

/** PEM of CRLs, each with its last newline; empty for none. */
export function crlsPem(crls: readonly Crl[]): string {
  return crls.map(({ der }) => toPem("X509 CRL", der)).join("");
}
