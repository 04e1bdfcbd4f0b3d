import { describe, expect, test } from "vitest";
import { AnswerTooLong, FetchError } from "../../src/foundation/fetch.ts";
import {
  KubernetesClient,
  type KubernetesRequest,
  type SendRequest,
} from "../../src/kubernetes/client.ts";
import { Listing, type ListPage } from "../../src/kubernetes/list-pages.ts";

const listing: Listing = { path: "/api/v1/pods", pageSize: 4, maximumRequests: 20 };

async function pagesOf(send: SendRequest, changes: Partial<Listing> = {}): Promise<ListPage[]> {
  const pages: ListPage[] = [];
  for await (const page of Listing.pages(send, { ...listing, ...changes })) pages.push(page);
  return pages;
}

const numbers = (size: number): number[] => Array.from({ length: size }, (_, i) => i);
const itemsOf = (pages: readonly ListPage[]): unknown[] => pages.flatMap(({ items }) => items);

const queryOf = ({ path }: KubernetesRequest): URLSearchParams =>
  new URL(path, "https://api.test").searchParams;

const page = (items: readonly unknown[] | null, next = ""): unknown => ({
  kind: "PodList",
  metadata: { resourceVersion: "7", continue: next },
  items,
});

/** Numbers from 0 on, of which some are too long for a page with others, and the limit of each request. */
function collectionOf(size: number, long: readonly number[] = []) {
  const limits: number[] = [];
  const send: SendRequest = async (request) => {
    const [limit, from] = ["limit", "continue"].map((key) => Number(queryOf(request).get(key)));
    if (limit === undefined || from === undefined) throw new Error("no query");
    limits.push(limit);
    const items = numbers(size).slice(from, from + limit);
    if (limit > 1 && items.some((each) => long.includes(each))) throw new AnswerTooLong();
    // Go writes a list without objects as null.
    return page(size === 0 ? null : items, from + limit < size ? `${from + limit}` : "");
  };
  return { send, limits };
}

describe("a collection is listed", () => {
  test.each([0, 1, 4, 5, 11])("whole, where it has %i objects", async (size) => {
    const { send } = collectionOf(size);
    const pages = await pagesOf(send);
    expect(itemsOf(pages)).toEqual(numbers(size));
    expect(pages.map(({ isFirst }) => isFirst)).toEqual(pages.map((_, i) => i === 0));
    expect(pages.every(({ resourceVersion }) => resourceVersion === "7")).toBe(true);
  });

  test.each([
    ["/api/v1/pods", "/api/v1/pods?limit=4"],
    ["/api/v1/pods?fieldSelector=a", "/api/v1/pods?fieldSelector=a&limit=4"],
  ])("by requests under %s", async (path, first) => {
    const paths: string[] = [];
    const send: SendRequest = async (request) => {
      paths.push(request.path);
      return page([], paths.length === 1 ? "a&watch=1#" : "");
    };
    await pagesOf(send, { path });
    expect(paths).toEqual([first, `${first}&continue=a%26watch%3D1%23`]);
  });

  test("with its signal, and no more octets than a page or an object may have", async () => {
    const { signal } = new AbortController();
    const requests: KubernetesRequest[] = [];
    const { send } = collectionOf(4, [1]);
    await pagesOf(
      (request) => {
        requests.push(request);
        return send(request);
      },
      { signal, objectOctets: KubernetesClient.maximumObjectOctets },
    );
    expect(requests.every((each) => each.signal === signal)).toBe(true);
    const [ofPage, ofObject] = [Listing.maximumPageOctets, KubernetesClient.maximumObjectOctets];
    const octets = requests.map(({ maximumOctets }) => maximumOctets);
    expect(octets).toEqual([ofPage, ofPage, ofObject, ofObject, ofPage]);
  });
});

describe("a page that is too long", () => {
  test.each([[[0]], [[3]], [[5, 6]], [numbers(9)]])(
    "by the objects %j is listed in halves",
    async (long) => {
      const pages = await pagesOf(collectionOf(9, long).send, { maximumRequests: 40 });
      expect(itemsOf(pages)).toEqual(numbers(9));
    },
  );

  test("leaves the pages after it as they are", async () => {
    const { send, limits } = collectionOf(12, [0]);
    await pagesOf(send);
    expect(limits).toEqual([4, 2, 1, 1, 2, 4, 4]);
  });

  test("is halved evenly where it has an odd number of objects", async () => {
    const { send, limits } = collectionOf(5, [4]);
    expect(itemsOf(await pagesOf(send, { pageSize: 5 }))).toHaveLength(5);
    expect(limits).toEqual([5, 3, 2, 1, 1]);
  });

  test("by one object alone ends the list", async () => {
    const tooLong: SendRequest = () => Promise.reject(new AnswerTooLong());
    await expect(pagesOf(tooLong)).rejects.toThrow(AnswerTooLong);
  });
});

describe("a server that has forgotten where the next page begins,", () => {
  const expired = (): FetchError => new FetchError("gone", { status: 410 });

  test("is asked for the list again from its beginning", async () => {
    const { send } = collectionOf(8);
    let hasExpired = false;
    const pages = await pagesOf(async (request) => {
      if (hasExpired || !queryOf(request).has("continue")) return send(request);
      hasExpired = true;
      throw expired();
    });
    expect(pages.map(({ items, isFirst }) => [isFirst, items])).toEqual([
      [true, [0, 1, 2, 3]],
      [true, [0, 1, 2, 3]],
      [false, [4, 5, 6, 7]],
    ]);
  });

  test("again and again, counts as one without an end", async () => {
    const { send, limits } = collectionOf(8);
    const forgetful: SendRequest = async (request) => {
      if (queryOf(request).has("continue")) throw expired();
      return send(request);
    };
    await expect(pagesOf(forgetful)).rejects.toThrow(FetchError);
    expect(limits).toHaveLength(10);
  });

  test("and answers 410 to the first page, gets no second request", async () => {
    let asked = 0;
    const gone: SendRequest = () => {
      asked++;
      return Promise.reject(expired());
    };
    await expect(pagesOf(gone)).rejects.toMatchObject({ status: 410 });
    expect(asked).toBe(1);
  });
});

describe("no list is", () => {
  test.each<[string, unknown]>([
    ["an object", {}],
    ["an array", []],
    ["a text", "list"],
    ["nothing, by status 404", undefined],
    ["a Pod", { ...Object(page([])), kind: "Pod" }],
    ["a list of no kind", { ...Object(page([])), kind: undefined }],
    ["a list without metadata", { kind: "PodList", items: [] }],
    ["a list without items", { kind: "PodList", metadata: {} }],
    ["a list whose items are an object", { ...Object(page([])), items: {} }],
    ["a page of more objects than anybody asked for", page(Array.from({ length: 1001 }, () => 0))],
    ["a list with a token of any length", page([], "a".repeat(4097))],
  ])("%s", async (_, json) => {
    await expect(pagesOf(async () => json)).rejects.toThrow("something else than a list");
  });

  test("one that has no end, however short its pages are", async () => {
    let asked = 0;
    const endless: SendRequest = async () => page([], `${++asked}`);
    await expect(pagesOf(endless)).rejects.toThrow("does not come to the end");
    expect(asked).toBe(listing.maximumRequests);
  });
});

test("the failure of a request is the failure of the list", async () => {
  const refused = new FetchError("refused", { status: 403 });
  await expect(pagesOf(() => Promise.reject(refused))).rejects.toBe(refused);
});
