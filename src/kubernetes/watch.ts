import * as z from "zod/mini";
import { Backoff } from "../foundation/backoff.ts";
import { messageOf } from "../foundation/errors.ts";
import { FetchError } from "../foundation/fetch.ts";
import { type Pause, pause as systemPause } from "../foundation/pause.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import type { KubernetesClient } from "./client.ts";
import { displacedBy, smallItems, TooMany, type WatchBound } from "./internal/watch-bound.ts";
import { watchEvents } from "./internal/watch-events.ts";
import { Listing } from "./list-pages.ts";

/** The objects of a collection by their keys, as they were last seen. */
export interface WatchedCollection<T> {
  readonly items: Map<string, T>;
  /** Whether a list of the whole collection has completed; `false` again once it is too large, which empties `items`. */
  readonly hasAll: () => boolean;
  /** The instant up to which no change has been missed; always `undefined` without a clock. */
  readonly asOf: () => Date | undefined;
  /** Why the watch has failed several times in a row; `undefined` again once it brings something or ends without an error. */
  readonly fault: () => string | undefined;
}

interface WatchOptions<T> {
  readonly client: KubernetesClient;
  readonly listing: Listing;
  /** The key of an object and the part that is kept, if any; `undefined` for any other object. */
  readonly keep: (object: unknown) => readonly [string, T | undefined] | undefined;
  /** Called for every change of an item. */
  readonly changed?: ((before: T | undefined, after: T | undefined) => void) | undefined;
  readonly failed: (error: unknown) => void;
  readonly signal: AbortSignal;
  readonly clock?: () => Date;
  readonly pause?: Pause;
  /** Bounds the items where each may be large. */
  readonly bound?: WatchBound<T>;
  /** The server ends a watch after this long. A watch that lasts half as long again is taken for dead. */
  readonly watchSeconds?: number;
}

/** The pause before a collection that was too large is listed again: a list is work for both sides. */
const tooManyPauseMilliseconds = 900_000;

const pauseBetweenWatchesMilliseconds = 200;

/** The failures after which a fault is reported, about 15 seconds: an API server restarts faster. */
const failuresOfFault = 6;

const textOrNone = z._default(z.string(), "");
const eventSchema = z.object({
  type: z.enum(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
  object: z.looseObject({
    code: z.optional(z.number()),
    metadata: z.prefault(z.looseObject({ resourceVersion: textOrNone }), {}),
  }),
});

const gone = 410;

/** A watch that lasts longer than `watchSeconds` by this factor is taken for dead. */
const outlivedPart = 1.5;

/** These statuses refuse the credential, not the version of the list, so a new list would not help. */
const refusals: readonly unknown[] = [401, 403];

interface Progress<T> {
  readonly items: Map<string, T>;
  octets: number;
  hasAll: boolean;
  asOf: Date | undefined;
  /** The version from which the next watch begins; `undefined` if a list must come first. */
  version: string | undefined;
  /** Whether objects were left out that the next list may bring. */
  isShort: boolean;
  /** Failures in a row. */
  failures: number;
  lastFault: string | undefined;
}

/** Watches collections. */
export const WatchedCollection = {
  /**
   * Watches a collection as client-go does: it lists all objects once, then takes every change from that
   * version on, across broken connections. It lists again when the server has forgotten the version, and
   * when a watch has failed twice from the same version.
   */
  watch<T>(options: WatchOptions<T>): WatchedCollection<T> {
    const items = new Map<string, T>();
    const progress: Progress<T> = {
      items,
      octets: 0,
      hasAll: false,
      asOf: undefined,
      version: undefined,
      isShort: false,
      failures: 0,
      lastFault: undefined,
    };
    void run(options, progress);
    return {
      items,
      hasAll: () => progress.hasAll,
      asOf: () => progress.asOf,
      fault: () => (progress.failures < failuresOfFault ? undefined : progress.lastFault),
    };
  },
};

async function run<T>(options: WatchOptions<T>, progress: Progress<T>): Promise<void> {
  const { signal, failed, pause = systemPause } = options;
  let failedAt: string | undefined;
  while (!signal.aborted) {
    try {
      progress.version ??= await list(options, progress);
      await watch(options, progress, progress.version);
      progress.failures = 0;
      if (progress.isShort) progress.version = undefined;
      await pause(pauseBetweenWatchesMilliseconds, signal);
    } catch (error) {
      if (signal.aborted) return;
      const status = error instanceof FetchError ? error.status : undefined;
      if (status !== gone) failed(error);
      const isStuck = progress.version === failedAt && !refusals.includes(status);
      if (isStuck || status === gone) progress.version = undefined;
      failedAt = progress.version;
      progress.lastFault = messageOf(error);
      const ownPause = Backoff.milliseconds(Backoff.usual.outage, ++progress.failures);
      if (error instanceof TooMany) forget(options, progress);
      await pause(error instanceof TooMany ? tooManyPauseMilliseconds : ownPause, signal);
    }
  }
}

/** Lists the collection. @returns Its version. */
async function list<T>(options: WatchOptions<T>, progress: Progress<T>): Promise<string> {
  const { items } = progress;
  const { client, listing, signal, bound } = options;
  const begun = options.clock?.();
  const seen = new Set<string>();
  let version = "";
  progress.isShort = false;
  try {
    for await (const page of Listing.pages(client.send, { ...listing, signal })) {
      if (page.isFirst) seen.clear();
      version = page.resourceVersion;
      for (const object of page.items) {
        const [key, item] = options.keep(object) ?? [];
        if (key === undefined || item === undefined) continue;
        set(options, progress, key, item);
        seen.add(key);
      }
    }
  } catch (error) {
    if (version === "" || bound?.restSeconds === undefined || signal.aborted) throw error;
    // The watch begins without the list, because a user may have made the list endless. It shows only later changes.
    options.failed(error);
    progress.isShort = true;
    return version;
  }
  for (const key of items.keys()) if (!seen.has(key)) set(options, progress, key, undefined);
  progress.hasAll = true;
  progress.asOf = begun;
  if (progress.isShort && bound) options.failed(new TooMany(bound));
  return version;
}

async function watch<T>(
  options: WatchOptions<T>,
  progress: Progress<T>,
  from: string,
): Promise<void> {
  const { client, listing, keep, signal, clock, bound } = options;
  const usualSeconds = options.watchSeconds ?? 60;
  const watchSeconds = progress.isShort ? (bound?.restSeconds ?? usualSeconds) : usualSeconds;
  const begun = clock?.();
  const bounded = AbortSignal.any([
    signal,
    AbortSignal.timeout(1000 * outlivedPart * watchSeconds),
  ]);
  const seconds = (): number => secondsBetween(begun, clock?.());
  // The server sends nothing after it has ended the watch. A later event comes from a delayed stream, or after a pause of
  // the machine, in which timers may stop.
  const isLate = (): boolean => seconds() > outlivedPart * watchSeconds;
  const instant = (): Date | undefined =>
    begun && !isLate() ? addSeconds(begun, Math.min(seconds(), watchSeconds)) : undefined;
  let isUpToDate = true;
  for await (const event of watchEvents(
    client,
    watchPath(listing.path, from, watchSeconds),
    listing.objectOctets ?? Listing.maximumPageOctets,
    bounded,
  )) {
    const { type, object } = parseEvent(event);
    if (type === "ERROR") throw watchError(object.code ?? 0);
    progress.failures = 0;
    const [key, item] = type === "BOOKMARK" ? [] : (keep(object) ?? []);
    if (key !== undefined) {
      set(options, progress, key, type === "DELETED" ? undefined : item);
    }
    progress.version = object.metadata.resourceVersion || progress.version;
    // Further changes may follow a change at once. After a bookmark, none were pending.
    isUpToDate = type === "BOOKMARK";
    if (isUpToDate || isLate()) progress.asOf = instant();
  }
  // A watch that ends early was perhaps not ended by the server, so changes may have been missed.
  if (seconds() >= 0.9 * watchSeconds && isUpToDate) progress.asOf = instant();
}

const secondsBetween = (a: Date | undefined, b: Date | undefined): number =>
  a && b ? (b.getTime() - a.getTime()) / 1000 : Number.NaN;

/** Drops every item: answers from half a collection would be wrong. */
function forget<T>(options: WatchOptions<T>, progress: Progress<T>): void {
  for (const key of progress.items.keys()) set(options, progress, key, undefined);
  Object.assign(progress, { hasAll: false, asOf: undefined, version: undefined });
}

function set<T>(
  options: Pick<WatchOptions<T>, "changed" | "bound">,
  progress: Progress<T>,
  key: string,
  after: T | undefined,
): void {
  const { changed, bound = smallItems } = options;
  const { items } = progress;
  const before = items.get(key);
  const sizeOf = (item: T | undefined): number => (item === undefined ? 0 : bound.octetsOf(item));
  const added = sizeOf(after) - sizeOf(before);
  const isFull = (): boolean =>
    (before === undefined && items.size >= bound.items) || progress.octets + added > bound.octets;
  // The owner may have removed items that it has handled.
  if (isFull()) progress.octets = [...items.values()].reduce((sum, each) => sum + sizeOf(each), 0);
  if (after !== undefined && isFull()) {
    if (bound.restSeconds === undefined) throw new TooMany(bound);
    progress.isShort = true;
    const displaced = displacedBy(after, items, bound);
    if (displaced === undefined) return;
    set(options, progress, displaced, undefined);
    set(options, progress, key, after);
    return;
  }
  progress.octets += added;
  if (after === undefined) items.delete(key);
  else items.set(key, after);
  changed?.(before, after);
}

function parseEvent(json: unknown): z.infer<typeof eventSchema> {
  const event = eventSchema.safeParse(json);
  if (event.success) return event.data;
  throw new FetchError("answered something else than the events of a watch");
}

const watchError = (status: number): FetchError =>
  new FetchError(`ended a watch with status ${status}`, { status });

function watchPath(path: string, from: string, seconds: number): string {
  const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=${seconds}&resourceVersion=${encodeURIComponent(from)}`;
  return `${path}${path.includes("?") ? "&" : "?"}${query}`;
}
