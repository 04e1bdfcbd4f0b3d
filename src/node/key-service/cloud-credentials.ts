import {
  type Answer,
  ask,
  grant,
  KeyServiceError,
  type KeyServiceMeans,
  membersOf,
  parseCredential,
  refusedCredential,
  textOf,
} from "../../custody/key-service/key-service.ts";
import { bearerToken, isSafeToFetch } from "../../foundation/text.ts";
import { readSmallFile, readTokenFile } from "../../program/files/small-file.ts";
import { accountTokenFile, type Environment } from "../files/places.ts";

/** What a machine has, in which the credential of a cloud is looked for. */
export interface Machine extends Pick<KeyServiceMeans, "fetch" | "clock"> {
  readonly environment: Environment;
}

/** A metadata service is next door: where none is, its address may answer nothing at all. */
const timeoutMilliseconds = 2000;

/** The addresses of a machine's own link at which the clouds answer. Nobody encrypts there. */
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

/** Asks for a part of a credential. @param what Who is asked, as the subject of a sentence. @throws KeyServiceError */
export async function askFor(
  what: string,
  { fetch }: Pick<Machine, "fetch">,
  url: string,
  init: RequestInit = {},
): Promise<Answer> {
  try {
    const answer = await ask(fetch, url, init);
    if (answer.status === 200) return answer;
    const refused = /expired/i.test(answer.text) ? refusedCredential(answer.text) : "refuses";
    throw new KeyServiceError(`${refused} (status ${answer.status})`);
  } catch (error) {
    if (!(error instanceof KeyServiceError)) throw error;
    throw new KeyServiceError(`cannot be asked: ${what} ${error.message}`, { cause: error });
  }
}

/** Asks a metadata service, by GET for want of another method. @throws KeyServiceError */
export const askMetadata = (
  what: string,
  machine: Machine,
  url: string,
  init: RequestInit = {},
): Promise<Answer> =>
  askFor(what, machine, metadataUrl(url), {
    ...init,
    signal: AbortSignal.timeout(timeoutMilliseconds),
  });

/** A text of the environment that a header has room for. @throws KeyServiceError */
export function headerOf(name: string, text: string): string {
  if (bearerToken.test(text)) return text;
  throw new KeyServiceError(`cannot be asked: ${name} must be one line of visible ASCII`);
}

/**
 * A token, or a login whose token is read anew from its file each time: that of the pod, where it names no other.
 */
export async function findVaultCredential(
  { environment }: Machine,
  given = environment["VAULT_TOKEN"]?.trim(),
): Promise<string | undefined> {
  const login = parseCredential(given ?? "");
  if (!login || login["jwt"] !== undefined) return given;
  const { jwt_file: file = accountTokenFile, ...others } = login;
  return JSON.stringify({ ...others, jwt: await readTokenFile(`${file}`) });
}

/**
 * A client secret or a federated token, which a kubelet replaces in its file, by the variables of Azure's own
 * tools; else a token of the managed identity, from Container Apps and App Service or from the machine.
 */
export async function findAzureCredential(machine: Machine, resource: string): Promise<string> {
  const {
    AZURE_TENANT_ID: tenant,
    AZURE_CLIENT_ID: appId,
    AZURE_CLIENT_SECRET: password,
    AZURE_FEDERATED_TOKEN_FILE: file,
    AZURE_AUTHORITY_HOST: authority,
  } = machine.environment;
  if (tenant && appId && (password || file)) {
    const proof = password ? { password } : { assertion: await readTokenFile(file ?? "") };
    return JSON.stringify({ tenant, appId, authority, ...proof });
  }
  return ofManagedIdentity(machine, { resource, ...(appId && { client_id: appId }) });
}

async function ofManagedIdentity(
  machine: Machine,
  asked: Readonly<Record<string, string>>,
): Promise<string> {
  const {
    IDENTITY_ENDPOINT: endpoint,
    IDENTITY_HEADER: header = "",
    AZURE_POD_IDENTITY_AUTHORITY_HOST: host = "http://169.254.169.254",
  } = machine.environment;
  const [url, version, headers]: [string, string, Record<string, string>] = endpoint
    ? [endpoint, "2019-08-01", { "x-identity-header": headerOf("IDENTITY_HEADER", header) }]
    : [
        `${host.replace(/\/$/, "")}/metadata/identity/oauth2/token`,
        "2018-02-01",
        { metadata: "true" },
      ];
  const query = new URLSearchParams({ "api-version": version, ...asked });
  const what = "there is no KEY_CREDENTIAL_AZUREKMS, and the managed identity of Azure";
  const { json } = await askMetadata(what, machine, `${url}?${query}`, { headers });
  const { expires_in, expires_on } = membersOf(json);
  const now = machine.clock().getTime() / 1000;
  return JSON.stringify({
    access_token: textOf(json, "access_token"),
    expires_in: Number(expires_in ?? Number(expires_on) - now) || 0,
  });
}

const scope = "https://www.googleapis.com/auth/cloudkms";

/**
 * The key of a service account, a token of workload identity federation, or one of the metadata server (GCE,
 * GKE, Cloud Run): whatever the configuration or `GOOGLE_APPLICATION_CREDENTIALS` has, and the last for want of it.
 */
export async function findGoogleCredential(
  machine: Machine,
  given: string | undefined,
): Promise<string> {
  const { GOOGLE_APPLICATION_CREDENTIALS: file, GCE_METADATA_HOST: host = "169.254.169.254" } =
    machine.environment;
  const text = given ?? (file ? await readSmallFile(file, 32_768) : undefined);
  if (text !== undefined) {
    const json = parseCredential(text) ?? {};
    return json["type"] === "external_account" ? federated(machine, json) : text;
  }
  const url = `http://${host}/computeMetadata/v1/instance/service-accounts/default/token?scopes=${scope}`;
  const what = "there is no KEY_CREDENTIAL_GCPKMS, and the metadata server of Google";
  const answer = await askMetadata(what, machine, url, {
    headers: { "metadata-flavor": "Google" },
  });
  return answer.text;
}

/** Trades the token in a file for one of Google (RFC 8693), and that for one of a service account, if there is one. */
async function federated(
  machine: Machine,
  json: Readonly<Record<string, unknown>>,
): Promise<string> {
  const { credential_source, service_account_impersonation_url: account } = json;
  const { file, format } = membersOf(credential_source);
  const urls = [`${json["token_url"]}`, ...(account === undefined ? [] : [`${account}`])];
  if (typeof file !== "string" || !urls.every(isSafeToFetch))
    throw new KeyServiceError(
      "cannot be asked: its external_account must have a file as its source, and https URLs",
    );
  const { type = "text", subject_token_field_name: field } = membersOf(format);
  const text = (await readSmallFile(file, 32_768)).trim();
  const { token, seconds } = await grant(machine.fetch, `${json["token_url"]}`, {
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    requested_token_type: "urn:ietf:params:oauth:token-type:access_token",
    subject_token: type === "json" ? textOf(parseCredential(text), `${field}`) : text,
    subject_token_type: `${json["subject_token_type"]}`,
    audience: `${json["audience"]}`,
    // IAM, which impersonates, takes no narrower one.
    scope: account === undefined ? scope : "https://www.googleapis.com/auth/cloud-platform",
  });
  if (account === undefined) return JSON.stringify({ access_token: token, expires_in: seconds });
  const answer = await askFor("the service account of its federation", machine, `${account}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${headerOf("the token of Google", token)}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ scope: [scope], lifetime: "3600s" }),
  });
  const end = Date.parse(textOf(answer.json, "expireTime"));
  return JSON.stringify({
    access_token: textOf(answer.json, "accessToken"),
    expires_in: (end - machine.clock().getTime()) / 1000,
  });
}
