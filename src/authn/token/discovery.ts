import * as z from "zod/mini";
import { isPublicHost } from "../../foundation/addresses.ts";
import { type DocumentFetch, FetchError, type Reach } from "../../foundation/fetch.ts";
import { isSafeToFetch } from "../../foundation/text.ts";

/** The URL of an issuer's keys, and where a request for them may go. */
export interface KeySource {
  readonly url: string;
  readonly reach: Reach;
}

const documentForm = z.object({ issuer: z.string(), jwks_uri: z.string() });

/**
 * Where the discovery document of an issuer says that its keys are. The document must name the issuer
 * that it was fetched for, byte for byte (OpenID Connect Discovery §4.3).
 *
 * The operator chose the issuer's URL, and a stranger may have written the document. So the document of
 * a public issuer may name no private place. The issuer's own origin is the operator's choice as well.
 *
 * @throws FetchError
 */
export async function discoverKeys(issuer: string, fetchJson: DocumentFetch): Promise<KeySource> {
  const place = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const document = documentForm.safeParse(await fetchJson.anywhere(place));
  if (!document.success) throw new FetchError("answered no discovery document");
  if (document.data.issuer !== issuer) throw new FetchError("describes another issuer");
  const { jwks_uri: url } = document.data;
  if (!isSafeToFetch(url)) throw new FetchError("points at an unsafe key URL");
  const [own, other] = [new URL(issuer), new URL(url)];
  if (!isPublicHost(own.hostname) || own.origin === other.origin) return { url, reach: "anywhere" };
  if (isPublicHost(other.hostname)) return { url, reach: "public" };
  throw new FetchError("points at a private key URL: configure jwks_uri if that is right");
}
