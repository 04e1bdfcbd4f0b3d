import { membersOf, textOf } from "../../custody/key-service/key-service.ts";
import { readTokenFile } from "../../program/files/small-file.ts";
import { askMetadata, headerOf, type Machine } from "./machine.ts";

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
