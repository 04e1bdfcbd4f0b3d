import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { listenOnLoopback } from "../network/loopback.ts";
import { fitsSelector } from "./field-selector.ts";

interface KubernetesObject {
  readonly kind: string;
  readonly metadata: Readonly<Record<string, unknown>> & {
    readonly name: string;
    readonly namespace?: string;
    readonly resourceVersion?: string;
  };
  readonly data?: unknown;
  readonly [field: string]: unknown;
}

interface Change {
  readonly version: number;
  readonly before: KubernetesObject | undefined;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: KubernetesObject;
}

type Selected = (object: KubernetesObject | undefined) => boolean;

export type WatchedApi = Awaited<ReturnType<typeof startWatchedApi>>;

export const watchedToken = "token-of-distribute";

const collections = [
  ["/api/v1/namespaces", "Namespace"],
  ["/api/v1/configmaps", "ConfigMap"],
  ["/api/v1/pods", "Pod"],
] as const;

const keyOf = ({ kind, metadata }: KubernetesObject): string =>
  `${kind}/${metadata.namespace ?? ""}/${metadata.name}`;

/**
 * A stand-in for the collections of a kube-apiserver, over real HTTP. It lists in pages, watches from a
 * resource version, answers 410 for a forgotten one, and applies objects. It follows the documented API;
 * `test/interop/kubernetes` runs the same code against a real one.
 */
export async function startWatchedApi() {
  const objects = new Map<string, KubernetesObject>();
  const changes: Change[] = [];
  const watches = new Map<ServerResponse, (change?: Change) => void>();
  const asked: string[] = [];
  let version = 100;
  let forgottenUntil = 0;
  let endsWatches = true;

  function record(type: Change["type"], object: KubernetesObject): KubernetesObject {
    version++;
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: `${version}` } };
    const before = objects.get(keyOf(object));
    if (type === "DELETED") objects.delete(keyOf(object));
    else objects.set(keyOf(object), stored);
    const change = { version, before, type, object: stored };
    changes.push(change);
    for (const tell of watches.values()) tell(change);
    return stored;
  }

  const put = (object: KubernetesObject): KubernetesObject =>
    record(objects.has(keyOf(object)) ? "MODIFIED" : "ADDED", object);

  function list(response: ServerResponse, url: URL, isSelected: Selected): void {
    const from = Number(url.searchParams.get("continue") ?? 0);
    // Pages are small, so that there are several.
    const to = from + Math.min(2, Number(url.searchParams.get("limit") ?? 2));
    const all = [...objects.values()].filter(isSelected);
    const rest = to < all.length ? { continue: `${to}` } : {};
    const items = all.slice(from, to);
    answer(response, 200, {
      kind: "List",
      metadata: { resourceVersion: `${version}`, ...rest },
      items,
    });
  }

  function watch(response: ServerResponse, url: URL, isSelected: Selected): void {
    const from = Number(url.searchParams.get("resourceVersion"));
    response.writeHead(200, { "content-type": "application/json" });
    const send = (event: unknown): void => void response.write(`${JSON.stringify(event)}\n`);
    if (from < forgottenUntil) {
      send({ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } });
      response.end();
      return;
    }
    const tell = (change?: Change): void => {
      const object = { kind: "Bookmark", metadata: { resourceVersion: `${version}` } };
      const event = change ? eventOf(change, isSelected) : { type: "BOOKMARK", object };
      if (event) send(event);
    };
    for (const change of changes) if (change.version > from) tell(change);
    tell();
    watches.set(response, tell);
    const seconds = Number(url.searchParams.get("timeoutSeconds"));
    const end = setTimeout(() => endsWatches && response.end(), 1000 * seconds);
    response.on("close", () => {
      clearTimeout(end);
      watches.delete(response);
    });
  }

  function apply(
    response: ServerResponse,
    url: URL,
    body: string,
    namespace: string | undefined,
  ): void {
    const object = JSON.parse(body) as KubernetesObject;
    const place = objects.get(`Namespace//${namespace}`);
    const manager = url.searchParams.get("fieldManager");
    if (namespace !== undefined && !place) answer(response, 404, { code: 404 });
    else if (manager === null) answer(response, 400, { code: 400 });
    else {
      const status = objects.has(keyOf(object)) ? 200 : 201;
      const managedFields = [{ manager, operation: "Apply" }];
      answer(response, status, put({ ...object, metadata: { ...object.metadata, managedFields } }));
    }
  }

  function route(request: IncomingMessage, response: ServerResponse, url: URL, body: string): void {
    const [, namespace] =
      /^\/api\/v1\/namespaces\/([^/]+)\/configmaps\/[^/]+$/.exec(url.pathname) ?? [];
    const isBundle = url.pathname.startsWith("/apis/certificates.k8s.io/v1/clustertrustbundles/");
    const [, kind] = collections.find(([path]) => path === url.pathname) ?? [];
    const isSelected: Selected = (object) =>
      object?.kind === kind && fitsSelector(object, url.searchParams.get("fieldSelector"));
    const [, place, pod] =
      /^\/api\/v1\/namespaces\/([^/]+)\/pods(?:\/([^/]+))?$/.exec(url.pathname) ?? [];
    const isThere: Selected = (object) =>
      object?.kind === "Pod" &&
      object.metadata.namespace === place &&
      fitsSelector(object, url.searchParams.get("fieldSelector"));
    if (request.method === "PATCH" && (namespace !== undefined || isBundle)) {
      apply(response, url, body, namespace);
    } else if (pod !== undefined) {
      const found = objects.get(`Pod/${place}/${pod}`);
      answer(response, found ? 200 : 404, found ?? { code: 404 });
    } else if (place !== undefined) list(response, url, isThere);
    else if (request.method !== "GET" || kind === undefined) answer(response, 404, { code: 404 });
    else if (url.searchParams.get("watch")) watch(response, url, isSelected);
    else list(response, url, isSelected);
  }

  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const url = new URL(request.url ?? "/", "http://a");
    if (!url.searchParams.get("watch")) asked.push(`${request.method} ${url.pathname}`);
    if (request.headers.authorization !== `Bearer ${watchedToken}`)
      return answer(response, 401, {});
    if (api.instead?.(request, response)) return;
    route(request, response, url, body);
  });
  const { host, close } = await listenOnLoopback(server);
  /** While set, it sees each request first; `true` means that it answers. */
  type Instead = (request: IncomingMessage, response: ServerResponse) => boolean;
  const api = {
    origin: `http://${host}`,
    /** Method and path of every request but watches. */
    asked,
    put,
    remove: (kind: string, name: string, namespace?: string) => {
      const found = objects.get(`${kind}/${namespace ?? ""}/${name}`);
      if (found) record("DELETED", found);
    },
    configMapIn: (namespace: string, name = "istio-ca-root-cert") =>
      objects.get(`ConfigMap/${namespace}/${name}`),
    clusterTrustBundles: () =>
      [...objects.values()].filter(({ kind }) => kind === "ClusterTrustBundle"),
    /** Forgets all versions so far, as etcd does when it is compacted, and ends every watch. */
    forget: () => {
      forgottenUntil = version + 1;
      version++;
      changes.length = 0;
      for (const response of watches.keys()) response.end();
      watches.clear();
    },
    /** From now on only the client ends a watch. */
    endNoWatch: () => {
      endsWatches = false;
    },
    cut: () => server.closeAllConnections(),
    watching: () => watches.size,
    bookmark: () => {
      for (const tell of watches.values()) tell();
    },
    instead: undefined as Instead | undefined,
    close,
  };
  return api;
}

/** To a watch with a selector, an object that no longer fits it is deleted. */
function eventOf({ type, before, object }: Change, isSelected: Selected): object | undefined {
  const [was, is] = [isSelected(before), type !== "DELETED" && isSelected(object)];
  if (was && !is) return { type: "DELETED", object };
  return is ? { type: was ? "MODIFIED" : "ADDED", object } : undefined;
}

function answer(response: ServerResponse, status: number, json: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(json));
}

/** A namespace as the API has it. */
export const namespaceOf = (name: string, phase = "Active"): KubernetesObject => ({
  kind: "Namespace",
  metadata: { name },
  status: { phase },
});
