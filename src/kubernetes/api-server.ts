import { CaError } from "../foundation/errors.ts";
import {
  AnswerTooLong,
  type Fetch,
  FetchError,
  fetchTimeoutMilliseconds,
  readJson,
} from "../foundation/json-fetch.ts";
import { addSeconds } from "../pki/x509/validity.ts";

/** One question to an API server: a GET, with a body a POST, or its server-side apply. */
export interface KubernetesQuestion {
  /** With its query, percent-encoded. */
  readonly path: string;
  readonly body?: unknown;
  /** Whether the body is applied. The path names the field owner. */
  readonly isApply?: boolean;
  /** Of the answer; where it is left out, as many as any JSON may have here. */
  readonly maximumOctets?: number;
  /** Ends the question before its time is up. */
  readonly signal?: AbortSignal;
}

/**
 * Puts one question to an API server that may be slow, away, broken or somebody else: bounded in time
 * and size.
 *
 * @returns The JSON of a good answer, unread; `undefined` for what is not there (404).
 * @throws FetchError
 */
export type ApiServer = (question: KubernetesQuestion) => Promise<unknown>;

/**
 * Asks a cluster's API server.
 *
 * @returns The JSON of a good answer, unread; `undefined` for what is not there (404).
 * @throws CaError `cluster-unreachable`: the same question may be answered later.
 */
export type KubernetesApi = (question: KubernetesQuestion, now: Date) => Promise<unknown>;

/** Told whenever an API server did not answer as it should. */
export type ClusterUnreachable = (cluster: string, error: FetchError) => void;

/**
 * The bearer token to show at an API server, which nothing may repeat; another one from time to time.
 *
 * @throws FetchError
 */
export type Credential = () => string | Promise<string>;

/** How to reach an API server, and what to show there. */
export interface KubernetesAccess {
  readonly cluster: string;
  /** No slash at the end. */
  readonly server: string;
  readonly credential: Credential;
}

/** All that it takes to talk to a cluster. */
export interface ReachableCluster extends KubernetesAccess {
  readonly fetch: Fetch;
  readonly unreachable: ClusterUnreachable;
}

/** Requests to one API server under way at once in this isolate; more would only queue there. */
const maximumUnderWay = 32;

/** After a failure nobody waits for the same server again for so long. */
export const restSeconds = 1;

/** Questions one by one, whatever became of those before. */
export function createApiServer(
  { server, credential }: Omit<KubernetesAccess, "cluster">,
  fetch: Fetch,
): ApiServer {
  return async (question) => {
    try {
      const init = request(question, await credential());
      const response = await fetch(`${server}${question.path}`, init);
      return await answerOf(response, question.maximumOctets);
    } catch (error) {
      throw toFetchError(error);
    }
  };
}

function request(
  { body, isApply = false, signal }: KubernetesQuestion,
  token: string,
): RequestInit {
  const contentType = isApply ? "application/apply-patch+yaml" : "application/json";
  const timeout = AbortSignal.timeout(fetchTimeoutMilliseconds);
  return {
    method: body === undefined ? "GET" : isApply ? "PATCH" : "POST",
    headers: {
      accept: "application/json",
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { "content-type": contentType }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    redirect: "manual",
    signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
  };
}

/** The same for questions that callers wait for: bounded in number as well. */
export function createKubernetesApi(
  access: KubernetesAccess,
  fetch: Fetch,
  unreachable: ClusterUnreachable,
): KubernetesApi {
  const { cluster } = access;
  const put = createApiServer(access, fetch);
  let underWay = 0;
  let restsUntil = new Date(0);

  async function ask(question: KubernetesQuestion, now: Date): Promise<unknown> {
    if (now < restsUntil) throw new FetchError("has just failed, and is left in peace");
    if (underWay >= maximumUnderWay) throw new FetchError("has enough to answer already");
    underWay++;
    try {
      return await put(question);
    } catch (error) {
      // How large an object is may be up to anybody, who would keep all others from an answer.
      if (!(error instanceof AnswerTooLong)) restsUntil = addSeconds(now, restSeconds);
      if (error instanceof FetchError) unreachable(cluster, error);
      throw error;
    } finally {
      underWay--;
    }
  }

  return async (question, now) => {
    try {
      return await ask(question, now);
    } catch (error) {
      throw error instanceof FetchError ? clusterUnreachable(cluster, error) : error;
    }
  };
}

/** An API server that answers wrongly may answer rightly later. */
export function clusterUnreachable(cluster: string, error: FetchError): CaError {
  const detail = `the API server of ${cluster} ${error.message}`;
  return new CaError({ reason: "cluster-unreachable", cluster }, detail, error);
}

/** Whatever `fetch` throws is the network's; its message may quote what was sent. */
function toFetchError(error: unknown): FetchError {
  return error instanceof FetchError ? error : new FetchError("did not answer", { cause: error });
}

async function answerOf(response: Response, maximumOctets?: number): Promise<unknown> {
  const { status } = response;
  if (status === 200 || status === 201) return readJson(response, maximumOctets);
  await response.body?.cancel();
  if (status === 404) return undefined;
  if (status === 401 || status === 403) {
    throw new FetchError(`refuses the credential that Rampart has for it (status ${status})`);
  }
  throw new FetchError(`answered with status ${status}`);
}
