import { Hono } from "hono";
import { expect, test } from "vitest";
import {
  PolledEndpoint,
  type Publisher,
  type Representation,
} from "../../../src/transport/http/polled-endpoint.ts";
import { SharedOctets } from "../../../src/transport/http/shared-octets.ts";

test("all callers share one buffer, of which an answer is a part", async () => {
  const octets = crypto.getRandomValues(new Uint8Array(60_000));
  const large = new Uint8Array([...octets, ...octets, ...octets]);
  const chunks: Uint8Array[] = [];
  for await (const chunk of SharedOctets.share(large, {}).body ?? []) chunks.push(chunk);
  expect(new Set(chunks.map(({ buffer }) => buffer))).toEqual(new Set([large.buffer]));
  expect(Buffer.concat(chunks).equals(large)).toBe(true);
});

test.each([0, 1, 5000])(
  "an answer of %i octets is whole, and knows what it shares",
  async (length) => {
    const octets = new Uint8Array(length).fill(7);
    const answer = SharedOctets.share(octets, { status: 200, headers: { etag: "a" } });
    expect(SharedOctets.of(answer)).toBe(octets);
    expect(answer.headers.get("etag")).toBe("a");
    expect(new Uint8Array(await answer.arrayBuffer())).toEqual(octets);
  },
);

const asItIs = (document: Representation) => document;

const endpointOf = <Content extends object>(
  read: () => Promise<Content | undefined>,
  write: (content: Content) => Representation,
) => {
  const publisher = { clock: () => new Date(), bundleMaximumAgeSeconds: 60 } as Publisher;
  const longPolls = { enter: () => undefined } as never;
  return new Hono().get("/", PolledEndpoint.create(publisher, longPolls, { read, write }));
};
const documentOf = (text: string) => ({
  body: new TextEncoder().encode(text),
  ...{ contentType: "text/plain", etag: `"${text}"` },
});

test("a document is not sent to a caller that has it, by one tag of several, also a weak one", async () => {
  const document = documentOf("a");
  const app = endpointOf(async () => document, asItIs);
  const status = async (tags: string) =>
    (await app.request("/", { headers: { "if-none-match": tags } })).status;
  for (const tags of [document.etag, `"x", ${document.etag}`, `"x",W/${document.etag}`, "*"])
    expect(await status(tags), tags).toBe(304);
  expect(await status('"x", "y"')).toBe(200);
  expect((await app.request("/")).headers.get("vary")).toBe("Prefer");
});

test("a document is written once for each content, and is gone with it", async () => {
  const former = {};
  const contents = [former, former, undefined, {}];
  let written = 0;
  const app = endpointOf(
    async () => contents.shift(),
    () => documentOf(`${++written}`),
  );
  const tag = async () => (await app.request("/")).headers.get("etag");
  expect([await tag(), await tag(), await tag(), await tag()]).toEqual(['"1"', '"1"', null, '"2"']);
});

test("a read that began earlier and ends later brings no older document back", async () => {
  const [former, latter] = [documentOf("former"), documentOf("latter")];
  const slow = Promise.withResolvers<typeof former>();
  const reads = [slow.promise, latter];
  const app = endpointOf(async () => reads.shift(), asItIs);
  const first = app.request("/");
  expect(await (await app.request("/")).text()).toBe("latter");
  slow.resolve(former);
  expect(await (await first).text()).toBe("latter");
});

test("a long poll waits on at a document that it has, reads anew once the clock was set back, and leaves though it fails", async () => {
  let now = 10_000;
  let left = 0;
  const looks: boolean[] = [];
  const hold = async (look: () => Promise<boolean>) => {
    for (const change of [0, -5000, 1000]) {
      now += change;
      looks.push(await look());
    }
  };
  const enter = () => ({ seconds: 30, hold, leave: () => left++ });
  const clock = () => new Date(now);
  const publisher = { clock, bundleMaximumAgeSeconds: 60, longPollLimits: { readSeconds: 1 } };
  const documents = ["a", "b", "c"].map(documentOf);
  const read = async () => documents.shift() ?? Promise.reject(new Error("down"));
  const handler = PolledEndpoint.create(publisher as never, { enter } as never, {
    read,
    write: asItIs,
  });
  const app = new Hono().get("/", handler).onError((error, c) => c.text(error.message, 500));
  const headers = { "if-none-match": '"a", "b"' };
  expect(await (await app.request("/", { headers })).text()).toBe("c");
  expect([looks, left]).toEqual([[false, false, true], 1]);
  expect(await (await app.request("/", { headers })).text()).toBe("down");
  expect(left).toBe(2);
});
