import { CaError } from "../foundation/errors.ts";
import { AnswerTooLong, FetchError } from "../foundation/json-fetch.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import type { KubernetesClient, KubernetesRequest, SendRequest } from "./client.ts";

/** Told of every request that an API server did not answer as it should. */
export type ClusterUnreachable = (cluster: string, error: FetchError) => void;

/** A cluster whose API server Rampart may use. */
export interface ReachableCluster {
  readonly cluster: string;
  readonly client: KubernetesClient;
  readonly unreachable: ClusterUnreachable;
}

/** The API server of a cluster, for requests that a caller of the CA waits for. */
export interface ClusterApi {
  readonly cluster: string;
  /**
   * @returns The JSON of a good answer, unread; `undefined` for status 404.
   * @throws CaError `cluster-unreachable`: the same request may succeed later.
   */
  readonly send: (request: KubernetesRequest, now: Date) => Promise<unknown>;
}

/** The most requests that one API server has to answer at once for this process or isolate. */
const maximumUnderWay = 32;

/** How long an API server gets no request after it failed one. */
export const backoffSeconds = 1;

/** Bounds the number of requests as well: callers may ask as often as they like. */
export function createClusterApi({ cluster, client, unreachable }: ReachableCluster): ClusterApi {
  const send = limitRequests(client.send, (error) => unreachable(cluster, error));
  return {
    cluster,
    send: async (request, now) => {
      try {
        return await send(request, now);
      } catch (error) {
        throw error instanceof FetchError ? clusterUnreachable(cluster, error) : error;
      }
    },
  };
}

function limitRequests(send: SendRequest, failed: (error: FetchError) => void): ClusterApi["send"] {
  let underWay = 0;
  let pausesUntil = new Date(0);
  return async (request, now) => {
    if (now < pausesUntil) throw new FetchError("gets no request: backing off after a failure");
    if (underWay >= maximumUnderWay) throw new FetchError("has too many requests to answer");
    underWay++;
    try {
      return await send(request);
    } catch (error) {
      // Anybody may be able to make an object large; that must not stop the requests of all others.
      if (!(error instanceof AnswerTooLong)) pausesUntil = addSeconds(now, backoffSeconds);
      if (error instanceof FetchError) failed(error);
      throw error;
    } finally {
      underWay--;
    }
  };
}

/** An API server that answers wrongly may answer rightly later. */
export function clusterUnreachable(cluster: string, error: FetchError): CaError {
  const detail = `the API server of ${cluster} ${error.message}`;
  return new CaError({ reason: "cluster-unreachable", cluster }, detail, error);
}
