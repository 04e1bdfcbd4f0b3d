import { FetchError } from "../foundation/fetch.ts";
import { type KubernetesRequest, maximumObjectOctets, type SendRequest } from "./client.ts";

/** A request that makes an object, or replaces the version of it that the body names. */
export type ObjectWrite = Pick<KubernetesRequest, "path"> & {
  readonly method: "POST" | "PUT";
  readonly body: object;
};

const conflict = 409;

/**
 * Writes an object of a namespace, unless another writer came first. The API server decides between two
 * writers: it makes a name once, and replaces only the version that a writer names.
 *
 * @returns Whether this write came first. It did not if the object that it would replace is gone.
 * @throws FetchError, also for a namespace that does not exist.
 */
export async function sendUnlessConflict(
  send: SendRequest,
  namespace: string,
  write: ObjectWrite,
): Promise<boolean> {
  try {
    const answer = await send({ ...write, maximumOctets: maximumObjectOctets });
    if (answer === undefined && write.method === "POST") throw noNamespace(namespace);
    return answer !== undefined;
  } catch (error) {
    if (error instanceof FetchError && error.status === conflict) return false;
    throw error;
  }
}

const noNamespace = (namespace: string): FetchError =>
  new FetchError(`has no namespace ${namespace}: kubectl create namespace ${namespace}`);
