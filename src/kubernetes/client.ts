import { OperationLog } from "../foundation/events.ts";
import {
  AnswerBudget,
  type Fetch,
  FetchError,
  Fetching,
  ResponseBody,
  toFetchError,
} from "../foundation/fetch.ts";
import { RetryAfter } from "../foundation/headers.ts";

/** One request to an API server: a GET, unless it says otherwise. */
export interface KubernetesRequest {
  /** POST creates the body, PUT replaces the object by it; PATCH is a server-side apply of it. */
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path with its query, percent-encoded. */
  readonly path: string;
  readonly body?: object;
  /** The media types that the answer may have; by default JSON. */
  readonly accept?: string;
  /** The longest answer that is read; by default the usual bound for JSON. */
  readonly maximumOctets?: number;
  /** Ends the request before its time is up. */
  readonly signal?: AbortSignal;
}

/**
 * Sends one request to an API server that may be slow, away, broken or an impostor. Time and size of
 * the answer are bounded.
 *
 * @returns The parsed JSON of an answer with status 200 or 201, not validated; `undefined` for status 404.
 * @throws FetchError
 */
export type SendRequest = (request: KubernetesRequest) => Promise<unknown>;

/** A client of one API server. Every request of Rampart to that server goes through one. */
export interface KubernetesClient {
  readonly send: SendRequest;
  /** Opens an answer that may last until the signal aborts. @throws FetchError, also for status 404 */
  readonly open: (path: string, signal: AbortSignal) => Promise<Pick<Response, "body">>;
}

/**
 * The bearer token for an API server. It may change between calls, and no log or error may quote it. It is
 * empty for a client whose TLS shows a certificate.
 *
 * @throws FetchError
 */
export type Credential = () => string | Promise<string>;

/** Creates clients. */
export const KubernetesClient = {
  /** The longest JSON of an object: an API server stores about a mebibyte, and JSON may escape each octet. */
  maximumObjectOctets: 10 * 1024 * 1024,

  /**
   * Creates a client of an API server, without a request to it. The responses that `send` reads at the same time are
   * bounded in their total of octets; the stream of `open` has no bound of octets or time.
   *
   * @param server Its URL, without a slash at the end.
   * @param timeoutMilliseconds The bound for every request but a watch.
   */
  create(
    { server, credential }: { readonly server: string; readonly credential: Credential },
    fetch: Fetch,
    timeoutMilliseconds: number = Fetching.usualTimeoutMilliseconds,
  ): KubernetesClient {
    const budget = new AnswerBudget(maximumAnswerOctets);

    async function open(request: KubernetesRequest, signal: AbortSignal): Promise<Response> {
      const response = await answerTo(request, signal);
      if (response.status === 200 || response.status === 201) return response;
      await response.body?.cancel();
      throw statusError(request, response);
    }

    async function answerTo(request: KubernetesRequest, signal: AbortSignal): Promise<Response> {
      try {
        const init = { ...requestInit(request, await credential()), signal };
        return await fetch(`${server}${request.path}`, init);
      } catch (error) {
        throw toFetchError(error, "did not answer");
      }
    }

    return {
      send: async (request) => {
        try {
          const response = await open(request, timeLimited(request.signal, timeoutMilliseconds));
          return await ResponseBody.readJson(response, request.maximumOctets, budget);
        } catch (error) {
          if (error instanceof FetchError && error.status === 404) return undefined;
          throw error;
        }
      },
      open: (path, signal) => open({ path }, signal),
    };
  },

  /** Logs a failure by {@link OperationLog.logFault}; a FetchError becomes a sentence about the API server. */
  logFault(...[log, event, error, fields]: Parameters<typeof OperationLog.logFault>): void {
    const fault =
      error instanceof FetchError ? new Error(`the API server ${error.message}`) : error;
    OperationLog.logFault(log, event, fault, fields);
  },
};

/**
 * The octets of all responses of an API server at the same time: one object of the greatest length, and a few lists.
 */
const maximumAnswerOctets = 16 * 1024 * 1024;

function timeLimited(signal: AbortSignal | undefined, milliseconds: number): AbortSignal {
  const timeout = AbortSignal.timeout(milliseconds);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}

function requestInit(
  { method = "GET", body, accept = "application/json" }: KubernetesRequest,
  token: string,
): RequestInit {
  const contentType = method === "PATCH" ? "application/apply-patch+yaml" : "application/json";
  return {
    method,
    headers: {
      accept,
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body && { "content-type": contentType }),
    },
    ...(body && { body: JSON.stringify(body) }),
    redirect: "manual",
  };
}

function statusError(
  { method = "GET", path }: KubernetesRequest,
  { status, headers }: Response,
): FetchError {
  const [collection = ""] = path.split("?");
  const message =
    status === 401 || (status === 403 && method === "GET")
      ? `refuses the credential for ${method} ${collection} (status ${status})`
      : `answered ${method} ${collection} with status ${status}${reasonOf(status, collection)}`;
  return new FetchError(message, {
    status,
    retryAfterSeconds: RetryAfter.parse(headers.get(RetryAfter.header)),
  });
}

/** The meaning of a status of an API server. Its own text is not quoted, because a webhook may choose that. */
function reasonOf(status: number, path: string): string {
  if (status === 403) return ": the account lacks the right, or a quota or a webhook denies it";
  const isInvalid = status === 422 && path.includes("/configmaps/");
  return isInvalid ? ": the ConfigMap is immutable, or a policy denies it" : "";
}
