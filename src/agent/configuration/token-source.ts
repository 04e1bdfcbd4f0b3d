import { TokenEndpoint } from "../../foundation/token-endpoint.ts";
import type { Variables } from "./environment.ts";

/** Where the agent gets the token that it shows to the CA and to istiod. */
export type TokenSource =
  | { readonly kind: "file"; readonly path: string }
  | TokenEndpoint
  /** A program and its arguments, run without a shell. */
  | { readonly kind: "command"; readonly argv: readonly string[] }
  | { readonly kind: "function"; readonly obtain: ObtainToken };

/** Gets a token anew. @throws Error with one sentence that quotes no secret. */
export type ObtainToken = (signal: AbortSignal) => Promise<string>;

/** Creates the source of AWS's tokens for an audience; `undefined` on a machine without a region or credential. */
export type AwsTokens = (audience: string) => ObtainToken | undefined;

const accepted = "file, gce, aws, azure, github or command:<program> <argument>…";

/**
 * Reads `RAMPART_TOKEN_SOURCE`. Without it, `CREDENTIAL_FETCHER_TYPE=GoogleComputeEngine` means `gce`, for the trust
 * domain as the audience, as in pilot-agent; else the source is the file.
 *
 * @returns The file for a malformed value, which is added to `faults`.
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
  if (source === "gce") return TokenEndpoint.gce(audience);
  if (source === "azure") return TokenEndpoint.azure(audience);
  if (source === "aws") {
    const obtain = awsTokens(audience);
    return obtain ? { kind: "function", obtain } : refused(awsFault);
  }
  const { ACTIONS_ID_TOKEN_REQUEST_URL: url = "", ACTIONS_ID_TOKEN_REQUEST_TOKEN: pass = "" } =
    variables;
  return TokenEndpoint.github(audience, url, pass) ?? refused(gitHubFault);
}

const awsFault =
  "RAMPART_TOKEN_SOURCE: aws needs AWS_REGION, and a credential of the machine, which AWS_EC2_METADATA_DISABLED may hide";

const commandFault =
  "RAMPART_TOKEN_SOURCE: command: takes a program and its arguments, separated by spaces and without quotes, because no shell reads them";

function commandOf(source: string): TokenSource | undefined {
  const argv = source.slice("command:".length).split(/\s+/).filter(Boolean);
  return argv.length === 0 || /["']/.test(source) ? undefined : { kind: "command", argv };
}

const gitHubFault =
  "RAMPART_TOKEN_SOURCE: github needs ACTIONS_ID_TOKEN_REQUEST_URL (https) and ACTIONS_ID_TOKEN_REQUEST_TOKEN, which a job with permissions: id-token: write has";
