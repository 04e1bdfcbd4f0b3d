import * as z from "zod/mini";
import { AnswerTooLong, FetchError } from "../foundation/json-fetch.ts";
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
export type ApiRead = (path: string, maximumOctets: number) => Promise<unknown>;

/** A page of ConfigMaps, each with a bundle, usually fits. */
export const maximumPageOctets: number = 2 * 1024 * 1024;

/** What an API server takes for a ConfigMap, a mebibyte and its notes, in the longest way to write it. */
export const maximumObjectOctets: number = 10 * 1024 * 1024;
const namespacesAtOnce = 250;
const configMapsAtOnce = 100;
const maximumRequests = 400;

const pageForm = z.object({
  kind: z.string().check(z.regex(/List$/)),
  metadata: z.object({ continue: z._default(z.string().check(z.maxLength(4096)), "") }),
  items: z.nullable(z.array(z.unknown()).check(z.maxLength(1000))),
});
type Page = z.infer<typeof pageForm>;

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
  const limitedBy = `${path}${path.includes("?") ? "&" : "?"}limit=`;
  let left = maximumRequests;

  async function pageOf(from: string, count: number): Promise<Page | undefined> {
    if (left-- === 0) throw new FetchError("has no end of what it lists");
    const rest = from === "" ? "" : `&continue=${encodeURIComponent(from)}`;
    const maximumOctets = count === 1 ? maximumObjectOctets : maximumPageOctets;
    try {
      return parsePage(await read(`${limitedBy}${count}${rest}`, maximumOctets));
    } catch (error) {
      if (error instanceof AnswerTooLong && count > 1) return undefined;
      throw error;
    }
  }

  /** Who may write into one namespace can make a page too long: then it is read in halves. */
  async function* listFrom(from: string, count: number): AsyncGenerator<unknown, string> {
    const page = await pageOf(from, count);
    if (page) {
      yield* page.items ?? [];
      return page.metadata.continue;
    }
    const half = Math.ceil(count / 2);
    const rest = yield* listFrom(from, half);
    return rest === "" ? "" : yield* listFrom(rest, count - half);
  }

  let next = yield* listFrom("", atOnce);
  while (next !== "") next = yield* listFrom(next, atOnce);
}

function parsePage(json: unknown): Page {
  const page = pageForm.safeParse(json);
  if (page.success) return page.data;
  throw new FetchError("answered something else than a list");
}
