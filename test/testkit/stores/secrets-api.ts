import { writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { fitsSelector } from "../kubernetes/field-selector.ts";
import { listenOnLoopback } from "../network/loopback.ts";
import { lastingFolder } from "../temporary-folder.ts";

interface Secret {
  readonly type?: string;
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion: string;
    readonly creationTimestamp?: string;
  };
  readonly data?: Readonly<Record<string, string>>;
}

/** An answer in place of the API server's own, such as 429; `undefined` lets it answer. */
type Instead = (request: IncomingMessage, response: ServerResponse) => boolean;

/**
 * A stand-in for the Secrets of a kube-apiserver, over real HTTP: names, sizes, optimistic locking, pages,
 * watches. It follows the documented API; `test/interop/kubernetes` runs the same contract against a real one.
 */
export interface SecretsApi {
  readonly origin: string;
  readonly client: KubernetesClient;
  /** The keys of a configuration whose store is here. */
  readonly storeKeys: () => Promise<Readonly<Record<string, string>>>;
  readonly secrets: ReadonlyMap<string, Secret>;
  /** Method and path of each request but watches. */
  readonly asked: string[];
  /** The clock of the API server, in milliseconds. */
  now: () => number;
  readonly watching: () => number;
  /** Writes a Secret as another client does. */
  readonly put: (secret: object) => void;
  /** While it is set, watches get no event, as behind a network that drops everything. */
  isMute: boolean;
  instead: Instead | undefined;
  readonly close: () => Promise<void>;
}

const namespace = "rampart-store";
const collection = `/api/v1/namespaces/${namespace}/secrets`;
const nameForm = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;
const maximumOctets = 1024 * 1024;
export const secretsToken = "token-of-serve";

export async function startSecretsApi(): Promise<SecretsApi> {
  const secrets = new Map<string, Secret>();
  const watches = new Map<ServerResponse, URL>();
  const asked: string[] = [];
  let version = 100;

  function tell(type: string, object: Secret): void {
    if (api.isMute) return;
    for (const [response, url] of watches) {
      if (!fitsSelector(object, url.searchParams.get("fieldSelector"))) continue;
      response.write(`${JSON.stringify({ type, object })}\n`);
    }
  }

  function store(given: Secret): Secret {
    const { name } = given.metadata;
    const time = new Date(api.now()).toISOString();
    const { creationTimestamp = time } = secrets.get(name)?.metadata ?? {};
    const managedFields = [
      { manager: "node", operation: "Update", time: creationTimestamp },
      { manager: "node", operation: "Update", time },
    ];
    const own = { namespace, creationTimestamp, managedFields, resourceVersion: `${++version}` };
    const metadata = { ...given.metadata, ...own };
    const stored = { ...given, metadata };
    const type = secrets.has(name) ? "MODIFIED" : "ADDED";
    secrets.set(name, stored);
    tell(type, stored);
    return stored;
  }

  function list(url: URL, isOfMetadata: boolean): [number, unknown] {
    const from = Number(url.searchParams.get("continue") ?? 0);
    // Pages are small, so that there are several.
    const to = from + Math.min(7, Number(url.searchParams.get("limit") ?? 7));
    const all = [...secrets.values()].filter((secret) =>
      fitsSelector(secret, url.searchParams.get("fieldSelector")),
    );
    const rest = to < all.length ? { continue: `${to}` } : {};
    const page = all.slice(from, to);
    const items = isOfMetadata ? page.map(({ metadata }) => ({ metadata })) : page;
    const kind = isOfMetadata ? "PartialObjectMetadataList" : "SecretList";
    return [200, { kind, metadata: { resourceVersion: `${version}`, ...rest }, items }];
  }

  function watch(response: ServerResponse, url: URL): void {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    watches.set(response, url);
    // Changes since this version are rare enough here to be sent as if all were new.
    const from = Number(url.searchParams.get("resourceVersion"));
    for (const secret of secrets.values()) {
      const isNew = Number(secret.metadata.resourceVersion) > from;
      if (isNew && fitsSelector(secret, url.searchParams.get("fieldSelector")) && !api.isMute) {
        response.write(`${JSON.stringify({ type: "MODIFIED", object: secret })}\n`);
      }
    }
    const bookmark = { kind: "Secret", metadata: { resourceVersion: `${version}` } };
    if (!api.isMute) response.write(`${JSON.stringify({ type: "BOOKMARK", object: bookmark })}\n`);
    const seconds = Number(url.searchParams.get("timeoutSeconds"));
    const end = setTimeout(() => !api.isMute && response.end(), 1000 * seconds);
    response.on("close", () => {
      clearTimeout(end);
      watches.delete(response);
    });
  }

  function write(method: string, name: string | undefined, secret: Secret): [number, unknown] {
    const known = secrets.get(secret.metadata.name);
    const octets = Object.values(secret.data ?? {}).join("").length * 0.75;
    if (!nameForm.test(secret.metadata.name) || secret.metadata.name.length > 253)
      return failure(422);
    if (octets > maximumOctets) return failure(422);
    if (method === "POST") return known ? failure(409) : [201, store(secret)];
    if (!known || name !== secret.metadata.name) return failure(404);
    const isStale = secret.metadata.resourceVersion !== known.metadata.resourceVersion;
    return isStale ? failure(409) : [200, store(secret)];
  }

  function remove(name: string): [number, unknown] {
    const known = secrets.get(name);
    if (!known) return failure(404);
    secrets.delete(name);
    tell("DELETED", { ...known, metadata: { ...known.metadata, resourceVersion: `${++version}` } });
    return [200, { kind: "Status", status: "Success" }];
  }

  function answerOf(
    { method = "", headers }: IncomingMessage,
    url: URL,
    body: string,
  ): [number, unknown] {
    const [, name] = /^\/([^/]+)$/.exec(url.pathname.slice(collection.length)) ?? [];
    if (!url.pathname.startsWith(collection)) return failure(404);
    if (method === "GET") {
      if (name === undefined)
        return list(url, headers.accept?.includes("PartialObjectMetadataList") === true);
      const secret = secrets.get(name);
      return secret ? [200, secret] : failure(404);
    }
    if (method === "DELETE") return remove(name ?? "");
    return write(method, name, JSON.parse(body) as Secret);
  }

  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const url = new URL(request.url ?? "/", "http://a");
    const isWatch = url.searchParams.has("watch");
    if (!isWatch) asked.push(`${request.method} ${url.pathname}`);
    if (request.headers.authorization !== `Bearer ${secretsToken}`)
      return send(response, failure(401));
    if (api.instead?.(request, response)) return;
    if (isWatch) return watch(response, url);
    send(response, answerOf(request, url, body));
  });
  const { host, close } = await listenOnLoopback(server);
  const origin = `http://${host}`;
  const api: SecretsApi = {
    origin,
    client: KubernetesClient.create({ server: origin, credential: () => secretsToken }, fetch),
    storeKeys: async () => {
      const KUBERNETES_TOKEN_FILE = join(await lastingFolder(), "token");
      await writeFile(KUBERNETES_TOKEN_FILE, secretsToken);
      const place = { STORE: "kubernetes", STORE_NAMESPACE: namespace, KUBERNETES_SERVER: origin };
      return { ...place, KUBERNETES_TOKEN_FILE };
    },
    secrets,
    asked,
    now: () => Date.now(),
    watching: () => watches.size,
    put: (secret) => void store(secret as Secret),
    isMute: false,
    instead: undefined,
    close,
  };
  return api;
}

const failure = (code: number): [number, unknown] => [code, { kind: "Status", code }];

function send(response: ServerResponse, [status, json]: [number, unknown]): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(json));
}
