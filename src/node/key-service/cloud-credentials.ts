import * as z from "zod/mini";
import { PlatformKeys } from "../../config/platform-keys.ts";
import {
  type Credential,
  type KeyServiceContext,
  KeyServiceError,
} from "../../custody/key-service/key-service.ts";
import { type Answer, type Asked, ServiceCall } from "../../custody/key-service/service-call.ts";
import { isSafeToFetch } from "../../foundation/addresses.ts";
import { jsonIn, Members } from "../../foundation/json-members.ts";
import { SmallFile, TokenFile } from "../../program/files/small-file.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import { accountTokenFile, type Environment } from "../files/places.ts";

/** The variables of a machine and its HTTP client, by which the credential of a cloud is found. */
export interface Machine extends Pick<KeyServiceContext, "fetch"> {
  readonly environment: Environment;
}

/** This machine. Empty variables are left out, because the tools of all clouds treat them as unset. */
export const machineWith = (variables: Environment): Machine => ({
  environment: Object.fromEntries(Object.entries(variables).filter(([, value]) => value)),
  fetch: NodeFetch.trusting(undefined),
});

/** A metadata service is on the machine's own link and answers fast; without one, its address may never answer. */
const timeoutMilliseconds = 2000;

/** The addresses of a machine's own link at which the clouds answer. Plaintext is accepted there. */
const linkLocal =
  /^(?:169\.254\.\d{1,3}\.\d{1,3}|\[fd00:ec2::(?:23|254)\]|metadata\.google\.internal)$/;

/** The URL of a metadata service: on the machine's own link, on the machine itself, or over HTTPS. @throws KeyServiceError */
export function metadataUrl(url: string): string {
  const parsed = URL.parse(url);
  const isNear = parsed?.protocol === "http:" && linkLocal.test(parsed.hostname);
  if (isSafeToFetch(isNear ? url.replace(/^http:/i, "https:") : url)) return url;
  throw new KeyServiceError(
    "cannot be asked: its metadata service is neither on this machine nor at its link-local address",
  );
}

/**
 * Requests a part of a credential.
 * @returns The members of the JSON answer; empty for any other text.
 * @param what Who is asked, as the subject of a sentence.
 * @throws KeyServiceError for every status but 200, and without an answer.
 */
export async function askFor(
  what: string,
  { fetch }: Machine,
  url: string,
  init: Asked,
): Promise<Answer> {
  try {
    const answer = await ServiceCall.ask(fetch, url, init);
    if (answer.status === 200) return answer;
    throw ServiceCall.faultIn(answer, { expired: /expired/i }, answer.text);
  } catch (error) {
    if (!(error instanceof KeyServiceError)) throw error;
    throw new KeyServiceError(`cannot be asked: ${what} ${error.message}`, { cause: error });
  }
}

/** Asks a metadata service, by default with GET. @throws KeyServiceError */
export const askMetadata = (
  what: string,
  machine: Machine,
  url: string,
  init: Asked,
): Promise<Answer> =>
  askFor(what, machine, metadataUrl(url), {
    ...init,
    signal: AbortSignal.timeout(timeoutMilliseconds),
  });

/**
 * Finds the credential for Vault: the given one, else `VAULT_TOKEN`, else an empty text. A login without a `jwt` gets
 * one from its `jwt_file`, read anew each time; by default, that is the pod's token file.
 */
export async function findVaultCredential(
  { environment }: Machine,
  given: Credential = PlatformKeys.credentialIn(environment["VAULT_TOKEN"]?.trim() ?? ""),
): Promise<Credential> {
  if (typeof given === "string" || given["jwt"] !== undefined) return given;
  const { jwt_file: file = accountTokenFile, ...others } = given;
  return { ...others, jwt: await TokenFile.read(`${file}`) };
}

/**
 * Finds the credential for Azure. If Azure's own variables have tenant and client id, it is their client secret or
 * federated token, not exchanged yet. Otherwise it is an access token of the managed identity.
 *
 * @throws OperatorError for the token's file, KeyServiceError for the identity.
 */
export async function findAzureCredential(
  machine: Machine,
  resource: string,
  now: Date,
): Promise<Credential> {
  const {
    AZURE_TENANT_ID: tenant,
    AZURE_CLIENT_ID: appId,
    AZURE_CLIENT_SECRET: password,
    AZURE_FEDERATED_TOKEN_FILE: file,
    AZURE_AUTHORITY_HOST: authority,
  } = machine.environment;
  if (tenant && appId && (password || file)) {
    const proof = password ? { password } : { assertion: await TokenFile.read(file ?? "") };
    return { tenant, appId, authority: authority?.replace(/\/$/, ""), ...proof };
  }
  return ofManagedIdentity(machine, { resource, ...(appId && { client_id: appId }) }, now);
}

async function ofManagedIdentity(
  machine: Machine,
  asked: Readonly<Record<string, string>>,
  now: Date,
): Promise<Credential> {
  const {
    IDENTITY_ENDPOINT: endpoint,
    IDENTITY_HEADER: header = "",
    AZURE_POD_IDENTITY_AUTHORITY_HOST: host = "http://169.254.169.254",
  } = machine.environment;
  const query = new URLSearchParams({
    "api-version": endpoint ? "2019-08-01" : "2018-02-01",
    ...asked,
  });
  const url = endpoint ?? `${host.replace(/\/$/, "")}/metadata/identity/oauth2/token`;
  const { members } = await askMetadata(
    "there is no KEY_CREDENTIAL_AZUREKMS, and the managed identity of Azure",
    machine,
    `${url}?${query}`,
    {
      headers: endpoint ? { "x-identity-header": header } : { metadata: "true" },
    },
  );
  const { expires_in = Number(members["expires_on"]) - now.getTime() / 1000 } = members;
  return { ...members, expires_in };
}

const scope = "https://www.googleapis.com/auth/cloudkms";

/**
 * Finds the credential for Google. If the configuration or `GOOGLE_APPLICATION_CREDENTIALS` has one, it is a service
 * account's key, or an access token for which it exchanges the token in a file (`external_account`).
 * Otherwise it is a token of the metadata server.
 *
 * @throws OperatorError for a file that cannot be read; KeyServiceError for a federation whose token is not in a file,
 *   and if Google or the metadata server gives no token.
 */
export async function findGoogleCredential(
  machine: Machine,
  given: Credential | undefined,
  now: Date,
): Promise<Credential> {
  const { GOOGLE_APPLICATION_CREDENTIALS: file, GCE_METADATA_HOST: host = "169.254.169.254" } =
    machine.environment;
  const found =
    given ?? (file ? PlatformKeys.credentialIn(await SmallFile.read(file, 32_768)) : undefined);
  if (found !== undefined)
    return Members.of(found)["type"] === "external_account"
      ? federated(machine, found, now)
      : found;
  const url = `http://${host}/computeMetadata/v1/instance/service-accounts/default/token?scopes=${scope}`;
  const what = "there is no KEY_CREDENTIAL_GCPKMS, and the metadata server of Google";
  const headers = { "metadata-flavor": "Google" };
  return (await askMetadata(what, machine, url, { headers })).members;
}

const safeUrl = z.string().check(z.refine(isSafeToFetch));

const federationSchema = z.object({
  audience: z.string(),
  subject_token_type: z.string(),
  token_url: safeUrl,
  service_account_impersonation_url: z.optional(safeUrl),
  credential_source: z.object({
    file: z.string(),
    format: z.optional(z.object({ type: z.string(), subject_token_field_name: z.string() })),
  }),
});

/** Exchanges the token in a file for one of Google (RFC 8693), and that for one of a service account, if any. */
async function federated(machine: Machine, given: Credential, now: Date): Promise<Credential> {
  const { data: account } = federationSchema.safeParse(given);
  if (!account)
    throw new KeyServiceError(
      "cannot be asked: its external_account must have a file as its source, and https URLs",
    );
  const { credential_source, service_account_impersonation_url: url } = account;
  const { file, format } = credential_source;
  const text = (await SmallFile.read(file, 32_768)).trim();
  const field = format?.type === "json" ? format.subject_token_field_name : undefined;
  const { pass, seconds } = await ServiceCall.grant(machine.fetch, account.token_url, {
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    requested_token_type: "urn:ietf:params:oauth:token-type:access_token",
    subject_token: field === undefined ? text : ServiceCall.textOf(Members.of(jsonIn(text)), field),
    subject_token_type: account.subject_token_type,
    audience: account.audience,
    // Impersonation by IAM accepts no narrower scope.
    scope: url === undefined ? scope : "https://www.googleapis.com/auth/cloud-platform",
  });
  if (url === undefined) return { access_token: pass, expires_in: seconds };
  const asked = ServiceCall.inJson(
    { scope: [scope], lifetime: "3600s" },
    { authorization: `Bearer ${pass}` },
  );
  const what = "the service account of its federation";
  const { members } = await askFor(what, machine, url, asked);
  const end = Date.parse(ServiceCall.textOf(members, "expireTime"));
  return {
    access_token: ServiceCall.textOf(members, "accessToken"),
    expires_in: (end - now.getTime()) / 1000,
  };
}
