import { FetchError } from "../foundation/fetch.ts";
import { KubernetesClient, type SendRequest } from "./client.ts";

/**
 * Writes an object of a namespace, unless another writer came first. The API server decides between two
 * writers: it creates a name once, and replaces only the version that a writer names.
 *
 * @returns Whether this write came first; `false` also if the object to be replaced is gone.
 * @throws FetchError, also for a new object in a namespace that does not exist.
 */
export async function writeUnlessConflict(
  send: SendRequest,
  { collection, namespace, name, body, version }: ObjectWrite,
): Promise<boolean> {
  const isNew = version === undefined;
  const [method, path] = isNew
    ? (["POST", collection] as const)
    : (["PUT", `${collection}/${name}`] as const);
  try {
    const answer = await send({
      method,
      path,
      body,
      maximumOctets: KubernetesClient.maximumObjectOctets,
    });
    if (answer === undefined && isNew) throw noNamespace(namespace);
    return answer !== undefined;
  } catch (error) {
    if (error instanceof FetchError && error.status === conflict) return false;
    throw error;
  }
}

interface ObjectWrite {
  /** The path of the collection of the object. */
  readonly collection: string;
  readonly namespace: string;
  readonly name: string;
  readonly body: object;
  /** The version that the body names, and that it replaces; `undefined` for a new object. */
  readonly version: string | undefined;
}

const conflict = 409;

const noNamespace = (namespace: string): FetchError =>
  new FetchError(`has no namespace ${namespace}: kubectl create namespace ${namespace}`);
