import type { Context } from "hono";
import type { AuthorityView } from "../../ca/authority-view.ts";
import { toSpiffeBundle } from "../../pki/authority/trust-bundle.ts";
import { toHex } from "../../pki/encoding/bytes.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import type { LongPolls } from "./long-poll.ts";
import { createPolledEndpoint, type ReadDocument, type Representation } from "./polled-endpoint.ts";

/** A format of the published trust bundle. */
export interface BundleFormat {
  readonly contentType: string;
  /** The body of an answer; empty for an empty bundle. */
  readonly write: (view: AuthorityView) => string | Promise<string>;
}

/** The roots as PEM blocks. */
export const pemBundle: BundleFormat = {
  contentType: "application/x-pem-file",
  write: ({ trustBundle }) => trustBundle.pem,
};

/** The bundle as SPIFFE federates it (SPIFFE Trust Domain and Bundle §4). */
export const spiffeBundle = ({ refreshHintSeconds }: CertificateAuthority): BundleFormat => ({
  contentType: "application/json",
  write: async ({ trustBundle, sequence }) => {
    const bundle = await toSpiffeBundle(trustBundle.roots, sequence, refreshHintSeconds);
    return bundle.keys.length > 0 ? `${JSON.stringify(bundle)}\n` : "";
  },
});

/**
 * A polled endpoint for the trust bundle in one format, tagged by its hash.
 *
 * The endpoint does not publish an empty bundle, which would tell verifiers to trust nobody (SPIFFE Trust
 * Domain and Bundle §4.2).
 */
export function createBundleEndpoint(
  ca: CertificateAuthority,
  longPolls: LongPolls,
  format: BundleFormat,
): (c: Context) => Promise<Response> {
  return createPolledEndpoint(ca, longPolls, createReadBundle(ca, format));
}

function createReadBundle(
  ca: CertificateAuthority,
  { contentType, write }: BundleFormat,
): ReadDocument {
  let latest: { view: AuthorityView; document: Representation | undefined } | undefined;
  return async () => {
    const view = await ca.issuance.authorities.at(ca.clock());
    if (latest?.view === view) return latest.document;
    const body = await write(view);
    const document = body === "" ? undefined : { body, contentType, etag: await etagOf(body) };
    latest = { view, document };
    return document;
  };
}

async function etagOf(body: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body));
  return `"${toHex(new Uint8Array(digest, 0, 16))}"`;
}
