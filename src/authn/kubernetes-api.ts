import { CaError } from "../errors.ts";
import { addSeconds } from "../pki/validity.ts";
import { FetchError, fetchTimeoutMilliseconds, readJson } from "./json-fetch.ts";

/** One question to an API server: a GET, or with a body a POST. */
export interface KubernetesQuestion {
  /** With its query, percent-encoded. */
  readonly path: string;
  readonly body?: unknown;
}

/**
 * Asks a cluster's API server.
 *
 * @returns The JSON of a good answer, unread; `undefined` for what is not there (404).
 * @throws CaError `cluster-unreachable`: the same question may be answered later.
 */
export type KubernetesApi = (question: KubernetesQuestion, now: Date) => Promise<unknown>;

/** Told whenever an API server did not answer as it should. */
export type ClusterUnreachable = (cluster: string, error: FetchError) => void;

/** `fetch`, as the platform has it for an API server's own CA. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** How to reach an API server, and what to show there. */
export interface KubernetesAccess {
  readonly cluster: string;
  /** No slash at the end. */
  readonly server: string;
  /** A bearer token, which nothing may repeat. */
  readonly credential: string;
}

/** Requests to one API server under way at once in this isolate; more would only queue there. */
export const maximumUnderWay = 32;

/** After a failure nobody waits for the same server again for so long. */
export const restSeconds = 1;

/** An API server that may be slow, away, broken or somebody else: bounded in time, size and number. */
export function createKubernetesApi(
  { cluster, server, credential }: KubernetesAccess,
  fetch: Fetch,
  unreachable: ClusterUnreachable,
): KubernetesApi {
  let underWay = 0;
  let restsUntil = new Date(0);

  async function ask(question: KubernetesQuestion, now: Date): Promise<unknown> {
    if (now < restsUntil) throw new FetchError("has just failed, and is left in peace");
    if (underWay >= maximumUnderWay) throw new FetchError("has enough to answer already");
    underWay++;
    try {
      return await answerOf(await fetch(`${server}${question.path}`, request(question)));
    } catch (error) {
      restsUntil = addSeconds(now, restSeconds);
      const failure = toFetchError(error);
      unreachable(cluster, failure);
      throw failure;
    } finally {
      underWay--;
    }
  }

  const request = ({ body }: KubernetesQuestion): RequestInit => ({
    method: body === undefined ? "GET" : "POST",
    headers: {
      accept: "application/json",
      authorization: `Bearer ${credential}`,
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    redirect: "manual",
    signal: AbortSignal.timeout(fetchTimeoutMilliseconds),
  });

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

async function answerOf(response: Response): Promise<unknown> {
  const { status } = response;
  if (status === 200 || status === 201) return readJson(response);
  await response.body?.cancel();
  if (status === 404) return undefined;
  if (status === 401 || status === 403) {
    throw new FetchError(`refuses the credential that Rampart has for it (status ${status})`);
  }
  throw new FetchError(`answered with status ${status}`);
}
