import {
  grant,
  KeyServiceError,
  membersOf,
  parseCredential,
  textOf,
} from "../../custody/key-service/key-service.ts";
import { isSafeToFetch } from "../../foundation/text.ts";
import { readSmallFile } from "../../program/files/small-file.ts";
import { askFor, askMetadata, headerOf, type Machine } from "./machine.ts";

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
