import type { X509Certificate } from "node:crypto";
import * as z from "zod/mini";
import { inEnglish } from "../../foundation/english.ts";
import { FetchError, ResponseBody } from "../../foundation/fetch.ts";
import { JwtSvidKeys } from "../../pki/jose/jwt-svid-keys.ts";
import type { KeySet } from "../../pki/jose/key-set.ts";
import { mayBeRoot, parseCertificate } from "../files/pem-file.ts";
import type { DocumentKind } from "./document-follower.ts";

/** A trust bundle in SPIFFE's format (SPIFFE Trust Domain and Bundle §4), parsed. */
export interface SpiffeBundle {
  /** 0 if the bundle has none: the standard recommends a sequence and does not demand it. */
  readonly sequence: number;
  /** The refresh hint, from a second to a day, or the standard's five minutes if the bundle has none. */
  readonly refreshSeconds: number;
  /** May be empty: then the standard withdraws the trust domain. */
  readonly roots: readonly X509Certificate[];
  /** The keys for JWT-SVIDs; empty if the trust domain has none. */
  readonly jwtKeys: KeySet;
}

/** Decides which of two bundles is in force. */
export const SpiffeBundle = {
  /**
   * The bundle in force after `next` arrives; `undefined` if `next` is refused.
   *
   * The sequence orders bundles (SPIFFE Trust Domain and Bundle §4.1.1). A lower number with other content is an older
   * bundle, from a replica whose store is stale, and may have a root or key that was withdrawn: it is refused. With the
   * same content it withdraws nothing, and gets the higher number.
   */
  after(known: SpiffeBundle | undefined, next: SpiffeBundle): SpiffeBundle | undefined {
    if (!known || next.sequence >= known.sequence) return next;
    return contentOf(known) === contentOf(next) ? { ...next, sequence: known.sequence } : undefined;
  },

  /**
   * {@link SpiffeBundle.after} for the bundle of the own trust domain, with the reason of a refusal. An empty bundle
   * is refused: it would withdraw the whole mesh, and is more likely a mistake.
   */
  ownAfter(
    known: SpiffeBundle | undefined,
    next: SpiffeBundle,
  ): SpiffeBundle | "empty" | "sequence-backwards" {
    if (next.roots.length === 0) return "empty";
    return SpiffeBundle.after(known, next) ?? "sequence-backwards";
  },
};

const contentOf = ({ roots, jwtKeys }: SpiffeBundle): string =>
  JSON.stringify([
    roots.map((root) => root.fingerprint256).toSorted(),
    jwtKeys.map((key) => JSON.stringify(JwtSvidKeys.toJwk(key))).toSorted(),
  ]);

/** The CA's trust bundle in SPIFFE's format. */
export const bundleDocument: DocumentKind<SpiffeBundle> = {
  name: "bundle",
  mediaType: "application/json",
  maximumOctets: 256 * 1024,
  parse: parseSpiffeBundle,
  refreshSeconds: ({ refreshSeconds }) => refreshSeconds,
};

const longestRefreshSeconds = 24 * 3600;

const count = z.int().check(z.nonnegative());
const keySchema = z.looseObject({ use: z.optional(z.string()), x5c: z.optional(z.unknown()) });
const schema = z.object({
  keys: z.array(keySchema).check(z.maxLength(100)),
  spiffe_sequence: z._default(count, 0),
  spiffe_refresh_hint: z._default(count, 300),
});
const x5cSchema = z.tuple([z.string()]);

/**
 * Parses a SPIFFE bundle (SPIFFE Trust Domain and Bundle §4). As the standard demands, it ignores keys of
 * another use, and X.509 keys without a certificate.
 *
 * @throws FetchError for an invalid bundle, and for one with a certificate that is not a CA's.
 */
export function parseSpiffeBundle(octets: string | Uint8Array): SpiffeBundle {
  const parsed = schema.safeParse(ResponseBody.parseJson(octets), inEnglish);
  if (!parsed.success) {
    const [{ path, message } = { path: [], message: "" }] = parsed.error.issues;
    throw new FetchError(`did not answer a SPIFFE bundle: ${path.join(".")} ${message}`);
  }
  const { keys, spiffe_sequence: sequence, spiffe_refresh_hint: hint } = parsed.data;
  const entries = keys.filter(({ use, x5c }) => use === "x509-svid" && x5c !== undefined);
  return {
    sequence,
    refreshSeconds: Math.min(longestRefreshSeconds, Math.max(1, hint)),
    roots: entries.map(({ x5c }) => parseRoot(x5c)),
    jwtKeys: JwtSvidKeys.in(keys),
  };
}

function parseRoot(x5c: unknown): X509Certificate {
  const { data: [base64] = [] } = x5cSchema.safeParse(x5c);
  const root = base64 === undefined ? undefined : parseCertificate(base64);
  if (root && mayBeRoot(root)) return root;
  throw new FetchError("answered a bundle with something else than a CA's certificate");
}
