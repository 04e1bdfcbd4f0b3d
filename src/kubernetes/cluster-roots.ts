import { FetchError } from "../foundation/fetch.ts";
import type { SendRequest } from "./client.ts";
import { listPages } from "./list-pages.ts";
import {
  configMapListing,
  type HeldRoots,
  namespaceListing,
  parseNamespace,
  parseRootConfigMap,
} from "./root-config-map.ts";

/** The roots in the namespaces of a cluster, as a list found them. */
export interface ClusterRoots<Kept> {
  /** Those to which Istio would give roots; at least one. */
  readonly namespaces: readonly string[];
  /** By namespace. */
  readonly held: ReadonlyMap<string, Kept>;
}

/**
 * Lists a cluster's namespaces and its ConfigMaps of this name.
 *
 * @param keep Reduces the roots of a namespace to the part that the caller needs: bundles are large.
 * @throws FetchError for an API server that does not list, or that lists no namespace.
 */
export async function listRoots<Kept>(
  send: SendRequest,
  configMap: string,
  keep: (held: HeldRoots) => Kept | Promise<Kept>,
): Promise<ClusterRoots<Kept>> {
  const namespaces = new Set<string>();
  for await (const { items, isFirst } of listPages(send, namespaceListing)) {
    if (isFirst) namespaces.clear();
    for (const object of items) {
      const [name, wantsRoots] = parseNamespace(object) ?? [];
      if (name !== undefined && wantsRoots) namespaces.add(name);
    }
  }
  if (namespaces.size === 0) throw new FetchError("lists no namespace");
  const held = new Map<string, Kept>();
  for await (const { items, isFirst } of listPages(send, configMapListing(configMap))) {
    if (isFirst) held.clear();
    for (const object of items) {
      const [name, roots] = parseRootConfigMap(object, configMap) ?? [];
      if (name !== undefined && roots) held.set(name, await keep(roots));
    }
  }
  return { namespaces: [...namespaces], held };
}
