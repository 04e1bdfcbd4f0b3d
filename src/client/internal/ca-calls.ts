import { type CallOptions, type Client, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { Backoff, retry } from "../../foundation/backoff.ts";
import { type Fetch, FetchError, JsonFetch, ResponseBody } from "../../foundation/fetch.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { JwtSvidService } from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { ClientError, failCall } from "./client-error.ts";
import type { ClientPorts } from "./renewing-identity.ts";
import { parseTrustBundle } from "./trust-bundle.ts";

interface CallPorts extends ClientPorts {
  /** The CA's URL without a slash at the end. */
  readonly url: string;
  readonly fetch: Fetch;
  readonly token: () => string | Promise<string>;
}

interface Services {
  readonly certificates: Client<typeof IstioCertificateService>;
  readonly tokens: Client<typeof JwtSvidService>;
}

const timeoutMs = 10_000;

/**
 * Makes the calls to a CA. While the CA is unavailable, a call is tried up to five times, each for at most ten seconds,
 * with pauses of less than two seconds in all. If the CA asks for a wait, the call fails at once. After such a failed
 * call, the next call is tried once, so that an outage does not multiply the calls of a mesh.
 */
export function createCaCalls({ url, fetch, token, pause, random }: CallPorts) {
  const sending = { baseUrl: url, useBinaryFormat: true, fetch: boundedFetch(fetch) };
  const transport = createConnectTransport(sending);
  const services = {
    certificates: createClient(IstioCertificateService, transport),
    tokens: createClient(JwtSvidService, transport),
  };
  const fetchJson = JsonFetch.create(fetch, timeoutMs);
  let hasFailed = false;

  async function retrying<T>(attempt: () => Promise<T>): Promise<T> {
    const isAway = (error: unknown): error is ClientError =>
      error instanceof ClientError && error.fault === "unavailable";
    const retryAfter = (error: unknown): 0 | undefined =>
      isAway(error) && error.retryAfterSeconds === 0 ? 0 : undefined;
    const attempts = hasFailed ? 1 : Backoff.callAttempts;
    try {
      const means = { backoff: Backoff.usual.call, attempts, retryAfter, random, pause };
      const answer = await retry(attempt, means);
      hasFailed = false;
      return answer;
    } catch (error) {
      if (isAway(error)) hasFailed = true;
      throw error;
    }
  }

  return {
    /** Sends a request; each attempt reads the token anew. @throws ClientError, and what `token` throws. */
    call: <Answer>(send: (services: Services, options: CallOptions) => Promise<Answer>) =>
      retrying(async () => {
        const credential = await token();
        const options = { headers: { authorization: `Bearer ${credential}` }, timeoutMs };
        return { answer: await send(services, options).catch(failCall), token: credential };
      }),
    /** Fetches the trust bundle, without a token. @throws ClientError for every failure. */
    bundle: () =>
      retrying(async () => parseTrustBundle(await fetchJson(`${url}/bundle.json`).catch(failCall))),
  };
}

/**
 * Makes a fetch for a library that reads responses without a bound: it follows no redirect, and reads at most
 * `maximumOctets`.
 * @throws FetchError, also for a response without content.
 */
function boundedFetch(
  fetch: Fetch,
  maximumOctets?: number,
): (input: string | URL | Request, init?: RequestInit) => Promise<Response> {
  return async (input, init) => {
    const response = await fetch(`${input}`, { ...init, redirect: "manual" });
    const { status } = response;
    const hasContent = status >= 200 && status !== 204 && !(status >= 300 && status < 400);
    if (!hasContent) throw new FetchError(`answered with status ${status}`, { status });
    const headers = new Headers(response.headers);
    // The platform has already decoded the body.
    headers.delete("content-encoding");
    return new Response(await ResponseBody.readOctets(response, maximumOctets), {
      status,
      headers,
    });
  };
}
