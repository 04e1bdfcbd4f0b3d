import type { X509Certificate } from "node:crypto";
import * as z from "zod/mini";
import { FetchError, parseJson } from "../../foundation/fetch.ts";
import { jwtSvidKeysIn, type KeySet } from "../../pki/jose/key-set.ts";
import { mayBeRoot, parseCertificate } from "../files/pem-file.ts";
import type { DocumentKind } from "./document-follower.ts";

/** A SPIFFE bundle. */
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

/** The document of a SPIFFE bundle endpoint. */
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
