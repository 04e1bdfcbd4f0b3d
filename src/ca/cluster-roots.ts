import * as z from "zod";
import { FetchError } from "../authn/json-fetch.ts";
import {
  type HeldRoots,
  namespacesPath,
  parseNamespace,
  parseRootConfigMap,
  rootConfigMapsPath,
} from "./root-config-map.ts";

/** What a cluster's namespaces have of the roots, as a listing of it found them. */
export interface ClusterRoots<Kept> {
  /** Those that Istio would give roots; at least one. */
  readonly namespaces: readonly string[];
  /** By namespace. */
  readonly held: ReadonlyMap<string, Kept>;
}

/** Reads a path of an API server: its JSON; nothing for what is not there. @throws FetchError */
export type ApiRead = (path: string) => Promise<unknown>;

/** A page of ConfigMaps, each with a bundle, has to fit. */
export const maximumPageOctets: number = 2 * 1024 * 1024;
const namespacesAtOnce = 250;
const configMapsAtOnce = 100;
const maximumPages = 200;

const pageForm = z.object({
  kind: z.string().regex(/List$/),
  metadata: z.object({ continue: z.string().max(4096).default("") }),
  items: z.array(z.unknown()).max(1000).nullable(),
});

/**
 * Lists a cluster's namespaces and its ConfigMaps of this name, page by page.
 *
 * @param keep What is kept of each: bundles of many namespaces are many octets.
 * @throws FetchError for an API server that does not list, or never comes to an end. A cluster without
 *   a namespace is none.
 */
export async function listRoots<Kept>(
  read: ApiRead,
  configMap: string,
  keep: (held: HeldRoots) => Kept,
): Promise<ClusterRoots<Kept>> {
  const namespaces: string[] = [];
  for await (const object of list(read, namespacesPath, namespacesAtOnce)) {
    const [name, wantsRoots] = parseNamespace(object) ?? [];
    if (name !== undefined && wantsRoots) namespaces.push(name);
  }
  if (namespaces.length === 0) throw new FetchError("lists no namespace");
  const held = new Map<string, Kept>();
  for await (const object of list(read, rootConfigMapsPath(configMap), configMapsAtOnce)) {
    const [name, roots] = parseRootConfigMap(object, configMap) ?? [];
    if (name !== undefined && roots) held.set(name, keep(roots));
  }
  return { namespaces, held };
}

async function* list(read: ApiRead, path: string, atOnce: number): AsyncGenerator<unknown> {
  const first = `${path}${path.includes("?") ? "&" : "?"}limit=${atOnce}`;
  let next = "";
  for (let pages = 0; pages < maximumPages; pages++) {
    const json = await read(next === "" ? first : `${first}&continue=${encodeURIComponent(next)}`);
    const page = pageForm.safeParse(json);
    if (!page.success) throw new FetchError("answered something else than a list");
    yield* page.data.items ?? [];
    next = page.data.metadata.continue;
    if (next === "") return;
  }
  throw new FetchError("has no end of what it lists");
}
