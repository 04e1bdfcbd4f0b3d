import * as z from "zod/mini";
import { AnswerTooLong, FetchError } from "../foundation/fetch.ts";
import type { SendRequest } from "./client.ts";

/** How a collection of an API server is listed, page by page. */
export interface Listing {
  /** The path of the collection. Its query may have a selector. */
  readonly path: string;
  /** How many objects usually fit into a page. */
  readonly pageSize: number;
  readonly maximumRequests: number;
  /** The longest JSON of one object; by default that of a page. */
  readonly objectOctets?: number;
  readonly signal?: AbortSignal;
}

/** One page of a list. */
export interface ListPage {
  readonly items: readonly unknown[];
  /** The version of the collection, from which a watch can begin; empty where the server gives none. */
  readonly resourceVersion: string;
  /** Whether the list begins here or starts over: then all earlier pages are void. */
  readonly isFirst: boolean;
}

/** Lists objects. */
export const Listing = {
  /** The longest answer for a page of several objects. */
  maximumPageOctets: 2 * 1024 * 1024,

  /**
   * Lists a collection page by page. It requests a page that is too long again in halves, because a tenant of one
   * namespace can make a page too long. When the server has forgotten the continue token, the list starts over.
   *
   * @throws FetchError for a server that does not list, and for a list without an end.
   */
  async *pages(send: SendRequest, listing: Listing): AsyncGenerator<ListPage> {
    const { path, pageSize, objectOctets = Listing.maximumPageOctets, signal } = listing;
    const halves: number[] = [];
    let from = "";
    for (let left = listing.maximumRequests; left > 0; left--) {
      const count = halves.pop() ?? pageSize;
      const maximumOctets = count === 1 ? objectOctets : Listing.maximumPageOctets;
      const request = {
        path: pagePath(path, from, count),
        maximumOctets,
        ...(signal && { signal }),
      };
      let page: Page;
      try {
        page = parsePage(await send(request));
      } catch (error) {
        if (error instanceof AnswerTooLong && count > 1)
          halves.push(Math.floor(count / 2), Math.ceil(count / 2));
        else if (error instanceof FetchError && error.status === tokenExpired && from !== "")
          from = "";
        else throw error;
        continue;
      }
      const { resourceVersion, continue: next } = page.metadata;
      yield { items: page.items ?? [], resourceVersion, isFirst: from === "" };
      if (next === "") return;
      from = next;
    }
    throw new FetchError("does not come to the end of its list");
  },
};

const textOrNone = z._default(z.string().check(z.maxLength(4096)), "");
const pageSchema = z.object({
  kind: z.string().check(z.regex(/List$/)),
  metadata: z.object({ resourceVersion: textOrNone, continue: textOrNone }),
  items: z.nullable(z.array(z.unknown()).check(z.maxLength(1000))),
});
type Page = z.infer<typeof pageSchema>;

const tokenExpired = 410;

function pagePath(path: string, from: string, count: number): string {
  const next = from === "" ? "" : `&continue=${encodeURIComponent(from)}`;
  return `${path}${path.includes("?") ? "&" : "?"}limit=${count}${next}`;
}

function parsePage(json: unknown): Page {
  const page = pageSchema.safeParse(json);
  if (page.success) return page.data;
  throw new FetchError("answered something else than a list");
}
