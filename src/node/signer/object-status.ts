import { FetchError } from "../../foundation/fetch.ts";
import type { KubernetesClient } from "../../kubernetes/client.ts";

/** A kind of object whose status the signer writes. */
export interface ObjectKind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
}

interface NamedObject {
  /** Absent for a cluster-scoped object. */
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly uid: string;
}

/** The path of all objects of a kind. */
export const collectionOf = ({ apiVersion, plural }: ObjectKind): string =>
  `/apis/${apiVersion}/${plural}`;

/**
 * Writes the given members of an object's status by server-side apply. It sends the UID, so that no later object of the
 * same name gets the status.
 *
 * @throws FetchError with status 404 or 409 if the object is gone, 422 for a status that the API server refuses.
 */
export async function applyStatus(
  { send }: KubernetesClient,
  { apiVersion, kind, plural }: ObjectKind,
  { namespace, name, uid }: NamedObject,
  status: object,
  subresource: "status" | "approval" = "status",
): Promise<void> {
  const scope = namespace === undefined ? "" : `namespaces/${namespace}/`;
  const object = `/apis/${apiVersion}/${scope}${plural}/${encodeURIComponent(name)}`;
  const answer = await send({
    method: "PATCH",
    path: `${object}/${subresource}?fieldManager=rampart-signer&force=true`,
    body: { apiVersion, kind, metadata: { ...(namespace && { namespace }), name, uid }, status },
  });
  if (answer === undefined) throw new FetchError("has no such request any more", { status: 404 });
}

/** An instant without a fraction, as Kubernetes writes it. */
export const instant = (date: Date): string => date.toISOString().replace(/\.\d+Z$/, "Z");
