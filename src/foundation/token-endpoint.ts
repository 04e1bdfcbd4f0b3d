import { isSafeToFetch } from "./addresses.ts";
import { OperatorError } from "./errors.ts";
import { type Fetch, FetchError, ResponseBody, toFetchError } from "./fetch.ts";
import { bearerToken } from "./headers.ts";
import { Members } from "./json-members.ts";

/** An HTTP endpoint that answers GET with a token. */
export interface TokenEndpoint {
  readonly kind: "endpoint";
  /** Names the endpoint in messages, as the subject of a sentence. */
  readonly name: string;
  readonly url: string;
  /** These may include a secret of the job. */
  readonly headers: Readonly<Record<string, string>>;
  /** The member of the JSON response that is the token; `undefined` where the response is the token. */
  readonly member: string | undefined;
}

/** Twice the longest token, for the JSON around it. */
const maximumOctets = 32_768;

const machine = "http://169.254.169.254";

/** The endpoints at which machines and jobs get their tokens. */
export const TokenEndpoint = {
  /** The metadata server of Compute Engine. With `format=full` the token names the machine. */
  gce: (audience: string): TokenEndpoint => ({
    kind: "endpoint",
    name: "the metadata server of Google",
    url: `${machine}/computeMetadata/v1/instance/service-accounts/default/identity?${new URLSearchParams({ audience, format: "full" })}`,
    headers: { "metadata-flavor": "Google" },
    member: undefined,
  }),

  /** The managed identity of a virtual machine, whose audience is a registered application. */
  azure: (resource: string): TokenEndpoint => ({
    kind: "endpoint",
    name: "the managed identity of Azure",
    url: `${machine}/metadata/identity/oauth2/token?${new URLSearchParams({ "api-version": "2018-02-01", resource })}`,
    headers: { metadata: "true" },
    member: "access_token",
  }),

  /** The runner of a job. `undefined` where the job may not ask for tokens, or its URL is not safe to ask. */
  github(audience: string, requestUrl: string, requestToken: string): TokenEndpoint | undefined {
    if (!isSafeToFetch(requestUrl) || !bearerToken.test(requestToken)) return undefined;
    const url = new URL(requestUrl);
    url.searchParams.set("audience", audience);
    return {
      kind: "endpoint",
      name: "the token endpoint of GitHub",
      url: url.href,
      headers: { authorization: `Bearer ${requestToken}` },
      member: "value",
    };
  },

  /**
   * Gets a token anew. It follows no redirect, because another server would get the headers.
   *
   * @throws OperatorError with one sentence that quotes neither a secret nor what the endpoint has answered.
   */
  async ask(
    { name, url, headers, member }: TokenEndpoint,
    fetch: Fetch,
    signal: AbortSignal,
  ): Promise<string> {
    try {
      const response = await fetch(url, { headers, redirect: "manual", signal });
      const { status } = response;
      if (status !== 200) {
        await response.body?.cancel();
        throw new FetchError(`answered with status ${status}`);
      }
      const token =
        member === undefined
          ? (await ResponseBody.readText(response, maximumOctets)).trim()
          : Members.of(await ResponseBody.readJson(response, maximumOctets))[member];
      if (typeof token === "string" && bearerToken.test(token)) return token;
      throw new FetchError("answered without a token");
    } catch (error) {
      // The error is not passed on as the cause, because a parser's error quotes what it has read.
      throw new OperatorError(`no token: ${name} ${toFetchError(error, "did not answer").message}`);
    }
  },
};
