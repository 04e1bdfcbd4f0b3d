import { FetchError } from "../../src/foundation/fetch.ts";
import type { KubernetesClient } from "../../src/kubernetes/client.ts";
import type { WatchBound } from "../../src/kubernetes/internal/watch-bound.ts";
import { WatchedCollection } from "../../src/kubernetes/watch.ts";
import { tellEvents } from "../testkit/kubernetes/told-events.ts";

export const start = new Date("2026-11-21T12:00:00Z");
export const path = "/api/v1/things?fieldSelector=a";

/** An object, of which the value is kept. */
export const thing = (name: string, value = name, resourceVersion = "1") => ({
  metadata: { name, resourceVersion },
  value,
});
type Thing = ReturnType<typeof thing>;

const isThing = (object: unknown): object is Thing => typeof Object(object).value === "string";

export const event = (type: string, object: object): object => ({ type, object });
export const bookmark = (resourceVersion = "2"): object =>
  event("BOOKMARK", { metadata: { resourceVersion } });

export const page = (items: readonly unknown[], next = "", resourceVersion = "1"): object => ({
  kind: "ThingList",
  metadata: { resourceVersion, continue: next },
  items,
});

/** The answer to a request for a page. */
type Listed = object | Error;

/** The events of a watch. A function runs once the events before it have been processed. */
export type Watched = readonly (
  | object
  | Error
  | ((collection: WatchedCollection<string>) => void)
)[];

export interface WatchRecord {
  readonly collection: WatchedCollection<string>;
  /** The paths of all requests, in order. */
  readonly asked: readonly string[];
  readonly failures: readonly unknown[];
  readonly pausesSeconds: readonly number[];
}

interface Script {
  readonly lists: readonly Listed[];
  readonly watches?: readonly Watched[];
  readonly changed?: (before: string | undefined, after: string | undefined) => void;
  readonly clock?: () => Date;
  readonly bound?: WatchBound<string>;
}

/** Watches a collection until the script is at its end. Pauses take no time. */
export function watchBy({
  lists,
  watches = [],
  changed,
  clock = () => start,
  bound,
}: Script): Promise<WatchRecord> {
  const [restOfLists, restOfWatches] = [[...lists], [...watches]];
  const ending = new AbortController();
  const asked: string[] = [];
  const failures: unknown[] = [];
  const pausesSeconds: number[] = [];
  return new Promise((resolve) => {
    const end = (): Error => {
      ending.abort();
      resolve({ collection, asked, failures, pausesSeconds });
      return new FetchError("the script is at its end");
    };
    const client: KubernetesClient = {
      send: async (request) => {
        asked.push(request.path);
        const listed = restOfLists.shift() ?? end();
        if (listed instanceof Error) throw listed;
        return listed;
      },
      open: tellEvents(async function* (from) {
        asked.push(from);
        const watched = restOfWatches.shift();
        if (!watched) throw end();
        for (const each of watched) {
          if (each instanceof Error) throw each;
          if (typeof each === "function") each(collection);
          else yield each;
        }
      }),
    };
    const collection = WatchedCollection.watch<string>({
      client,
      listing: { path, pageSize: 2, maximumRequests: 1000 },
      keep: (object) => (isThing(object) ? [object.metadata.name, object.value] : undefined),
      changed,
      failed: (error) => failures.push(error),
      signal: ending.signal,
      clock,
      pause: async (milliseconds) => void pausesSeconds.push(milliseconds / 1000),
      watchSeconds: 10,
      ...(bound && { bound }),
    });
  });
}

export const itemsOf = ({ collection }: WatchRecord): object =>
  Object.fromEntries(collection.items);
