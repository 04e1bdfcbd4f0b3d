import { setTimeout } from "node:timers/promises";
import * as z from "zod";
import { type KubernetesClient, KubernetesError } from "./kubernetes-client.ts";

/** The objects of a collection as they were last seen, by their keys. */
export interface Followed<T> {
  readonly items: Map<string, T>;
  /** Whether all of them have been seen once. */
  readonly hasAll: () => boolean;
}

/** What is followed, and how. */
export interface Following<T> {
  readonly client: KubernetesClient;
  /** Of the collection, with its query; there may be a selector. */
  readonly path: string;
  /** The key and what is kept of an object; nothing for one that is not wanted. */
  readonly keep: (object: unknown) => readonly [string, T] | undefined;
  readonly failed: (error: unknown) => void;
  readonly signal: AbortSignal;
}

const pageSize = 500;
const listMilliseconds = 30_000;

/** The server ends a watch after this long, and one that it does not end is dead: a half-open connection. */
const watchSeconds = 60;
const deadMilliseconds = 90_000;

const longestPauseSeconds = 30;
const pauseBetweenWatches = 200;

const metadata = z.object({
  resourceVersion: z.string().default(""),
  continue: z.string().default(""),
});
const listForm = z.object({ metadata, items: z.array(z.unknown()).nullish() });
const eventForm = z.object({
  type: z.enum(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
  object: z.looseObject({
    code: z.number().optional(),
    metadata: z.looseObject({ resourceVersion: z.string().default("") }).prefault({}),
  }),
});

const gone = 410;

/**
 * Follows a collection as client-go does: all of it once, then every change from there; all of it again
 * when the server has forgotten where that was, or something failed.
 */
export function follow<T>(following: Following<T>): Followed<T> {
  const items = new Map<string, T>();
  let hasAll = false;
  const saw = (isDeleted: boolean, object: unknown): void => {
    const [key, item] = following.keep(object) ?? [];
    if (key === undefined || item === undefined) return;
    if (isDeleted) items.delete(key);
    else items.set(key, item);
  };

  async function list(): Promise<string> {
    const seen = new Set<string>();
    let version = "";
    for await (const page of pages(following)) {
      version = page.metadata.resourceVersion;
      for (const object of page.items ?? []) {
        saw(false, object);
        const [key] = following.keep(object) ?? [];
        if (key !== undefined) seen.add(key);
      }
    }
    for (const key of items.keys()) if (!seen.has(key)) items.delete(key);
    hasAll = true;
    return version;
  }

  async function watch(from: string): Promise<string> {
    const signal = AbortSignal.any([following.signal, AbortSignal.timeout(deadMilliseconds)]);
    let version = from;
    for await (const line of following.client.watch(watchPath(following.path, from), signal)) {
      const { type, object } = eventForm.parse(line);
      if (type === "ERROR") throw new KubernetesError(object.code ?? 0, "the watch");
      if (type !== "BOOKMARK") saw(type === "DELETED", object);
      version = object.metadata.resourceVersion || version;
    }
    return version;
  }

  async function run(): Promise<void> {
    let pauseSeconds = 1;
    while (!following.signal.aborted) {
      try {
        let version = await list();
        pauseSeconds = 1;
        while (!following.signal.aborted) {
          version = await watch(version);
          await pause(pauseBetweenWatches, following.signal);
        }
      } catch (error) {
        if (following.signal.aborted) return;
        if (!(error instanceof KubernetesError && error.status === gone)) following.failed(error);
        await pause(1000 * pauseSeconds, following.signal);
        pauseSeconds = Math.min(2 * pauseSeconds, longestPauseSeconds);
      }
    }
  }

  void run();
  return { items, hasAll: () => hasAll };
}

type Page = z.infer<typeof listForm>;

async function* pages(following: Following<unknown>): AsyncGenerator<Page> {
  for (let next: string | undefined = ""; next !== undefined; ) {
    const page: Page = await listPage(following, next);
    yield page;
    next = page.metadata.continue || undefined;
  }
}

function listPage({ client, path, signal }: Following<unknown>, next: string): Promise<Page> {
  const query = `limit=${pageSize}${next === "" ? "" : `&continue=${encodeURIComponent(next)}`}`;
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(listMilliseconds)]);
  return client
    .read(`${path}${separator(path)}${query}`, bounded)
    .then((json) => listForm.parse(json));
}

function watchPath(path: string, from: string): string {
  const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=${watchSeconds}&resourceVersion=${from}`;
  return `${path}${separator(path)}${query}`;
}

const separator = (path: string): string => (path.includes("?") ? "&" : "?");

/** Ends early, and without complaint, when it is all over. */
async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await setTimeout(milliseconds, undefined, { signal }).catch(() => undefined);
}
