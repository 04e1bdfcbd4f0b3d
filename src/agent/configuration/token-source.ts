import { isSafeToFetch } from "../../foundation/addresses.ts";
import { bearerToken } from "../../foundation/text.ts";
import type { Variables } from "./environment.ts";

/** Where the agent gets the token that it shows to the CA and to istiod. */
export type TokenSource =
  | { readonly kind: "file"; readonly path: string }
  | TokenEndpoint
  /** A program and its arguments. No shell reads them. */
  | { readonly kind: "command"; readonly argv: readonly string[] }
  | { readonly kind: "function"; readonly obtain: ObtainToken };

/** Gets a token anew. @throws Error with one sentence that quotes no secret. */
export type ObtainToken = (signal: AbortSignal) => Promise<string>;

/** Makes what gets AWS's tokens for an audience; `undefined` where the machine has no region or no credential. */
export type AwsTokens = (audience: string) => ObtainToken | undefined;

/** An HTTP endpoint that answers GET with a token. */
export interface TokenEndpoint {
  readonly kind: "endpoint";
  /** The endpoint as the subject of a sentence. */
  readonly name: string;
  readonly url: string;
  /** May have a secret of the job. */
  readonly headers: Readonly<Record<string, string>>;
  /** The member of the JSON response that is the token; `undefined` where the response is the token. */
  readonly member: string | undefined;
}

const accepted = "file, gce, aws, azure, github or command:<program> <argument>…";

/**
 * Reads `RAMPART_TOKEN_SOURCE`. Without it, `CREDENTIAL_FETCHER_TYPE=GoogleComputeEngine` means `gce`, for the trust
 * domain as the audience, as in pilot-agent; else the source is the file.
 *
 * @returns The file where the value is a fault.
 */
export function tokenSourceOf(
  variables: Variables,
  faults: string[],
  awsTokens: AwsTokens,
): TokenSource {
  const { RAMPART_TOKEN_FILE: path, RAMPART_TOKEN_AUDIENCE: given } = variables;
  const isPilotAgents = variables.CREDENTIAL_FETCHER_TYPE === "GoogleComputeEngine";
  const source = variables.RAMPART_TOKEN_SOURCE ?? (isPilotAgents ? "gce" : "file");
  const file: TokenSource = { kind: "file", path };
  const refused = (fault: string): TokenSource => {
    faults.push(fault);
    return file;
  };
  const isAsked = /^(?:gce|aws|azure|github)$/.test(source);
  if (!isAsked && source !== "file" && !source.startsWith("command:"))
    return refused(`RAMPART_TOKEN_SOURCE: must be ${accepted}`);
  if (!isAsked && given !== undefined)
    return refused("RAMPART_TOKEN_AUDIENCE: is for RAMPART_TOKEN_SOURCE gce, aws, azure or github");
  if (source === "file") return file;
  if (!isAsked) return commandOf(source) ?? refused(commandFault);
  const audience =
    given ?? (isPilotAgents && source === "gce" ? variables.TRUST_DOMAIN : undefined);
  if (audience === undefined)
    return refused(`RAMPART_TOKEN_AUDIENCE: is required with RAMPART_TOKEN_SOURCE=${source}`);
  if (source === "gce") return googleEndpoint(audience);
  if (source === "azure") return azureEndpoint(audience);
  if (source === "aws") {
    const obtain = awsTokens(audience);
    return obtain ? { kind: "function", obtain } : refused(awsFault);
  }
  return gitHubEndpoint(audience, variables) ?? refused(gitHubFault);
}

const awsFault =
  "RAMPART_TOKEN_SOURCE: aws needs AWS_REGION, and a credential of the machine, which AWS_EC2_METADATA_DISABLED may hide";

const commandFault =
  "RAMPART_TOKEN_SOURCE: command: takes a program and its arguments, separated by spaces and without quotes, because no shell reads them";

function commandOf(source: string): TokenSource | undefined {
  const argv = source.slice("command:".length).split(/\s+/).filter(Boolean);
  return argv.length === 0 || /["']/.test(source) ? undefined : { kind: "command", argv };
}

/** The metadata server of Compute Engine. With `format=full` the token names the machine. */
function googleEndpoint(audience: string): TokenEndpoint {
  const query = new URLSearchParams({ audience, format: "full" });
  return {
    kind: "endpoint",
    name: "the metadata server of Google",
    url: `http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/identity?${query}`,
    headers: { "metadata-flavor": "Google" },
    member: undefined,
  };
}

/** The managed identity of a virtual machine, whose audience is a registered application. */
function azureEndpoint(resource: string): TokenEndpoint {
  const query = new URLSearchParams({ "api-version": "2018-02-01", resource });
  return {
    kind: "endpoint",
    name: "the managed identity of Azure",
    url: `http://169.254.169.254/metadata/identity/oauth2/token?${query}`,
    headers: { metadata: "true" },
    member: "access_token",
  };
}

const gitHubFault =
  "RAMPART_TOKEN_SOURCE: github needs ACTIONS_ID_TOKEN_REQUEST_URL (https) and ACTIONS_ID_TOKEN_REQUEST_TOKEN, which a job with permissions: id-token: write has";

/** The runner of a job. `undefined` where the job may not ask for tokens. */
function gitHubEndpoint(audience: string, variables: Variables): TokenEndpoint | undefined {
  const { ACTIONS_ID_TOKEN_REQUEST_URL: given = "", ACTIONS_ID_TOKEN_REQUEST_TOKEN: pass = "" } =
    variables;
  if (!isSafeToFetch(given) || !bearerToken.test(pass)) return undefined;
  const url = new URL(given);
  url.searchParams.set("audience", audience);
  return {
    kind: "endpoint",
    name: "the token endpoint of GitHub",
    url: url.href,
    headers: { authorization: `Bearer ${pass}` },
    member: "value",
  };
}
