import * as z from "zod/mini";
import { type Backoff, backoffMilliseconds } from "../foundation/backoff.ts";
import { FetchError } from "../foundation/json-fetch.ts";
import { pause as pauseOnTimer } from "../foundation/pause.ts";
import type { KubernetesClient } from "./client.ts";
import { type Listing, listPages } from "./list-pages.ts";

/** The objects of a collection as they were last seen, by their keys. */
export interface WatchedCollection<T> {
  readonly items: Map<string, T>;
  /** Whether all of them have been seen once. */
  readonly hasAll: () => boolean;
  /** Up to when nothing has been missed, as far as the server says; never without a clock. */
  readonly asOf: () => Date | undefined;
}

/** What is followed, and how. */
export interface WatchOptions<T> {
  readonly client: KubernetesClient;
  readonly listing: Listing;
  /** The key and what is kept of an object, if anything is; nothing for what is no such object. */
  readonly keep: (object: unknown) => readonly [string, T | undefined] | undefined;
  /** Told of every change of an item. */
  readonly changed?: ((before: T | undefined, after: T | undefined) => void) | undefined;
  readonly failed: (error: unknown) => void;
  readonly signal: AbortSignal;
  readonly clock?: () => Date;
  /** How it waits between requests; on the platform's timers, unless a test has others. */
  readonly pause?: typeof pauseOnTimer;
  /** The server ends a watch after this long, and one that it does not end is dead: a half-open connection. */
  readonly watchSeconds?: number;
}

/** Whoever has more of anything, or says so, may not fill the memory with it. */
const maximumItems = 50_000;

/** Until another look at a collection that was too large: the look itself is work for both sides. */
const tooManyPauseMilliseconds = 900_000;

class TooMany extends FetchError {
  constructor() {
    super(`has more than ${maximumItems} of what is followed`);
  }
}

const backoff: Backoff = { firstMilliseconds: 250, longestMilliseconds: 30_000 };
const pauseBetweenWatches = 200;

const textOrNone = z._default(z.string(), "");
const eventForm = z.object({
  type: z.enum(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
  object: z.looseObject({
    code: z.optional(z.number()),
    metadata: z.prefault(z.looseObject({ resourceVersion: textOrNone }), {}),
  }),
});

const gone = 410;

/** Of a credential, not of a place: a list would be as much in vain. */
const refusals: readonly unknown[] = [401, 403];

/** How far it has come. */
interface Progress<T> {
  readonly items: Map<string, T>;
  hasAll: boolean;
  asOf: Date | undefined;
  /** Where the next watch begins; nothing while there has to be a list first. */
  version: string | undefined;
}

/**
 * Follows a collection as client-go does: all of it once, then every change from there, across broken
 * connections; all of it again when the server has forgotten where that was, or a watch has failed
 * twice at the same place.
 */
export function watchCollection<T>(following: WatchOptions<T>): WatchedCollection<T> {
  const items = new Map<string, T>();
  const progress: Progress<T> = { items, hasAll: false, asOf: undefined, version: undefined };
  void run(following, progress);
  return { items, hasAll: () => progress.hasAll, asOf: () => progress.asOf };
}

async function run<T>(following: WatchOptions<T>, progress: Progress<T>): Promise<void> {
  const { signal, failed, pause = pauseOnTimer } = following;
  let failures = 0;
  let failedAt: string | undefined;
  while (!signal.aborted) {
    try {
      progress.version ??= await list(following, progress);
      await watch(following, progress, progress.version);
      failures = 0;
      await pause(pauseBetweenWatches, signal);
    } catch (error) {
      if (signal.aborted) return;
      const status = error instanceof FetchError ? error.status : undefined;
      if (status !== gone) failed(error);
      const isStuck = progress.version === failedAt && !refusals.includes(status);
      if (isStuck || status === gone) progress.version = undefined;
      failedAt = progress.version;
      const isTooMany = error instanceof TooMany;
      if (isTooMany) forget(following, progress);
      const pauseMilliseconds = backoffMilliseconds(backoff, ++failures);
      await pause(isTooMany ? tooManyPauseMilliseconds : pauseMilliseconds, signal);
    }
  }
}

/** @returns The version of what there was. */
async function list<T>(following: WatchOptions<T>, progress: Progress<T>): Promise<string> {
  const { items } = progress;
  const { client, listing, signal } = following;
  const begun = following.clock?.();
  const seen = new Set<string>();
  let version = "";
  for await (const page of listPages(client.send, { ...listing, signal })) {
    if (page.isFirst) seen.clear();
    version = page.resourceVersion;
    for (const object of page.items) {
      const [key, item] = following.keep(object) ?? [];
      if (key === undefined || item === undefined) continue;
      set(following, items, key, item);
      seen.add(key);
    }
  }
  for (const key of items.keys()) if (!seen.has(key)) set(following, items, key, undefined);
  progress.hasAll = true;
  progress.asOf = begun;
  return version;
}

async function watch<T>(
  { client, listing, keep, changed, signal, clock, watchSeconds = 60 }: WatchOptions<T>,
  progress: Progress<T>,
  from: string,
): Promise<void> {
  const begun = clock?.();
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(1500 * watchSeconds)]);
  let isToldAll = true;
  for await (const event of client.watch(watchPath(listing.path, from, watchSeconds), bounded)) {
    const { type, object } = parseEvent(event);
    if (type === "ERROR") throw watchError(object.code ?? 0);
    const [key, item] = type === "BOOKMARK" ? [] : (keep(object) ?? []);
    if (key !== undefined) {
      set({ changed }, progress.items, key, type === "DELETED" ? undefined : item);
    }
    progress.version = object.metadata.resourceVersion || progress.version;
    // A change may be an old one, with others behind it that are still on their way.
    isToldAll = type === "BOOKMARK";
    if (isToldAll) progress.asOf = clock?.();
  }
  // The end of one that ends early says nothing: it need not be the server's.
  const isWhole = begun && clock && clock().getTime() - begun.getTime() >= 900 * watchSeconds;
  if (isWhole && isToldAll) progress.asOf = clock();
}

/** Half of a collection is of no use to anybody. */
function forget<T>(following: WatchOptions<T>, progress: Progress<T>): void {
  for (const key of progress.items.keys()) set(following, progress.items, key, undefined);
  Object.assign(progress, { hasAll: false, asOf: undefined, version: undefined });
}

function set<T>(
  { changed }: Pick<WatchOptions<T>, "changed">,
  items: Map<string, T>,
  key: string,
  after: T | undefined,
): void {
  const before = items.get(key);
  if (after === undefined) items.delete(key);
  else if (before === undefined && items.size >= maximumItems) throw new TooMany();
  else items.set(key, after);
  changed?.(before, after);
}

function parseEvent(json: unknown): z.infer<typeof eventForm> {
  const event = eventForm.safeParse(json);
  if (event.success) return event.data;
  throw new FetchError("answered something else than the events of a watch");
}

const watchError = (status: number): FetchError =>
  new FetchError(`ended a watch with status ${status}`, { status });

function watchPath(path: string, from: string, seconds: number): string {
  const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=${seconds}&resourceVersion=${encodeURIComponent(from)}`;
  return `${path}${path.includes("?") ? "&" : "?"}${query}`;
}
