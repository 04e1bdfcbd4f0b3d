import { messageOf } from "../../foundation/errors.ts";
import { type Fetch, Fetching } from "../../foundation/fetch.ts";
import { TokenEndpoint } from "../../foundation/token-endpoint.ts";
import { ClientError } from "./client-error.ts";

/** What a job of GitHub with `permissions: id-token: write` has in its environment. */
export interface GitHubJob {
  /** `ACTIONS_ID_TOKEN_REQUEST_URL` */
  readonly url: string | undefined;
  /** `ACTIONS_ID_TOKEN_REQUEST_TOKEN` */
  readonly token: string | undefined;
}

/** Gets a new token. @throws ClientError `unavailable`, whose message has no token. */
type ObtainToken = () => Promise<string>;

const platformFetch: Fetch = (url, init) => globalThis.fetch(url, init);

const askingOf =
  (endpoint: TokenEndpoint, fetch: Fetch = platformFetch): ObtainToken =>
  async () => {
    const signal = AbortSignal.timeout(Fetching.usualTimeoutMilliseconds);
    try {
      return await TokenEndpoint.ask(endpoint, fetch, signal);
    } catch (error) {
      throw new ClientError("unavailable", messageOf(error));
    }
  };

/** Makes a client's `token` where the machine or the job has an endpoint for tokens. */
export const tokenFrom = {
  /** Makes a source of tokens from the metadata server of Google's machines, Cloud Run included. */
  gce: (audience: string, fetch?: Fetch): ObtainToken =>
    askingOf(TokenEndpoint.gce(audience), fetch),

  /**
   * Makes a source of tokens of the managed identity of Azure's machines.
   * @param resource A registered application, such as `api://rampart`.
   */
  azure: (resource: string, fetch?: Fetch): ObtainToken =>
    askingOf(TokenEndpoint.azure(resource), fetch),

  /**
   * Makes a source of the tokens of a GitHub job.
   * @throws TypeError for a job that may not ask, and for a URL without TLS.
   */
  github(audience: string, { url = "", token = "" }: GitHubJob, fetch?: Fetch): ObtainToken {
    const endpoint = TokenEndpoint.github(audience, url, token);
    if (endpoint) return askingOf(endpoint, fetch);
    throw new TypeError(
      "a job needs ACTIONS_ID_TOKEN_REQUEST_URL (https) and ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    );
  },
};
