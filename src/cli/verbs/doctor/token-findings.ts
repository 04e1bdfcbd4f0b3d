import * as z from "zod/mini";
import type { AuthorityView } from "../../../ca/authority-view.ts";
import type { TokenPolicy } from "../../../ca/issuance/product.ts";
import { FetchError, type JsonFetch } from "../../../foundation/fetch.ts";
import { type Finding, finding } from "../../../status/finding.ts";
import { discoveryPath } from "../../../transport/http/jwt-documents.ts";

const discoveryForm = z.object({ issuer: z.string(), jwks_uri: z.string() });
const keySetForm = z.object({ keys: z.array(z.object({ kid: z.optional(z.string()) })) });

/** Findings about the documents of JWT-SVIDs, read as a relying party reads them. */
export async function tokenFindings(
  { issuer }: TokenPolicy,
  view: AuthorityView | undefined,
  fetchJson: JsonFetch,
): Promise<readonly Finding[]> {
  const fault = await faultOf(issuer, view, fetchJson).catch((error: unknown) => {
    if (error instanceof FetchError) return `cannot be read: ${error.message}`;
    throw error;
  });
  if (fault === undefined) return [];
  const what = `${issuer}${discoveryPath} ${fault}.`;
  const remedy =
    "Set JWT_ISSUER to where the CA answers, or keep its documents there with `rampart authority documents`";
  return [finding("jwt-issuer-elsewhere", what, remedy)];
}

async function faultOf(
  issuer: string,
  view: AuthorityView | undefined,
  fetchJson: JsonFetch,
): Promise<string | undefined> {
  const discovery = discoveryForm.safeParse(await fetchJson(`${issuer}${discoveryPath}`));
  if (!discovery.success) return "is no discovery document";
  if (discovery.data.issuer !== issuer) return "names another issuer";
  const keySet = keySetForm.safeParse(await fetchJson(discovery.data.jwks_uri));
  if (!keySet.success) return "leads to no JWK Set";
  const served = new Set(keySet.data.keys.map(({ kid }) => kid));
  const missing = view?.tokenKeys.find(({ id }) => !served.has(id));
  return missing && `leads to a JWK Set without the key ${missing.id.slice(0, 12)}`;
}
