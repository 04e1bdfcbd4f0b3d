import { describe, expect, test } from "vitest";
import { type Fetch, FetchError } from "../../../src/foundation/fetch.ts";
import { parseXml } from "../../../src/node/stores/bucket-answers.ts";
import { requirePromises } from "../../../src/node/stores/bucket-promises.ts";
import { BucketSpace } from "../../../src/node/stores/bucket-space.ts";
import type { ObjectSpace } from "../../../src/node/stores/object-space.ts";
import { Turns } from "../../../src/node/stores/turns.ts";
import { failure, s3Credential, signatureFault } from "../../testkit/stores/s3-api.ts";
import { key, name, startBucket } from "./started-bucket.ts";

describe("a bucket whose answers are lost", () => {
  const once = () => {
    let isFirst = true;
    return ({ method }: { method?: string | undefined }) => {
      const isLost = isFirst && method === "PUT";
      if (isLost) isFirst = false;
      return isLost;
    };
  };

  test("confirms a new object to the writer that wrote it, once it is asked again", async () => {
    const { api, space } = await startBucket();
    api.loses = once();
    expect(await space.write(key, "mine")).toBe(true);
    expect(api.asked.filter((each) => each.startsWith("PUT"))).toHaveLength(2);
  });

  test("confirms a replaced object to the writer that replaced it", async () => {
    const { api, space } = await startBucket();
    await space.write(key, "first");
    const version = (await space.read(key))?.version;
    api.loses = once();
    expect(await space.write(key, "second", version)).toBe(true);
    expect((await space.read(key))?.value).toBe("second");
  });

  test("confirms nothing to a writer who came second with the same value", async () => {
    const { api, space, another } = await startBucket();
    await another().write(key, "same");
    api.loses = once();
    expect(await space.write(key, "same")).toBe(false);
  });

  test("gives a turn to the replica that took it", async () => {
    const { api, space, clock } = await startBucket();
    const takeAs = (identity: string) =>
      new Turns(space, { identity, clock, turnSeconds: 60 }).take(async () => {});
    api.loses = once();
    expect([await takeAs("a"), await takeAs("b")]).toEqual([true, true]);
  });
});

describe("a bucket that shows a tag before its octets", () => {
  const written = async (changes: { hasOpaqueTags: boolean }) => {
    const bucket = await startBucket();
    Object.assign(bucket.api, changes);
    await bucket.space.write(key, "first");
    const version = (await bucket.space.read(key))?.version;
    expect(await bucket.space.write(key, "second", version)).toBe(true);
    return bucket;
  };

  test("is read until both belong together, by readers that have never written as well", async () => {
    const { api, space, another } = await written({ hasOpaqueTags: false });
    for (const each of [space, another()]) {
      api.tornReads = 5;
      expect((await each.read(key))?.value).toBe("second");
      api.tornReads = 5;
      expect((await each.list("now")).get(key)?.value).toBe("second");
    }
  });

  test("is read on while its answers differ", async () => {
    const { api, space } = await written({ hasOpaqueTags: false });
    let torn = 0;
    api.instead = ({ method }, response) => {
      if (method !== "GET" || ++torn > 9) return false;
      response.writeHead(200, { etag: '"tag"' }).end(`${torn}`);
      return true;
    };
    expect((await space.read(key))?.value).toBe("second");
  });

  test("is read with the older value if the octets never follow the tag", async () => {
    const { api, space } = await written({ hasOpaqueTags: false });
    api.tornReads = Number.POSITIVE_INFINITY;
    expect((await space.read(key))?.value).toBe("first");
  });

  test("is not mistaken for one whose tags are no digests, which is read once", async () => {
    const { api, space } = await written({ hasOpaqueTags: true });
    api.asked.length = 0;
    expect((await space.read(key))?.value).toBe("second");
    expect(api.asked).toHaveLength(1);
  });
});

describe("a bucket that is busy or broken", () => {
  test.each([
    [503, "SlowDown"],
    [500, "InternalError"],
    [429, "TooManyRequests"],
    [409, "ConditionalRequestConflict"],
  ])("with %i %s is asked again", async (status, code) => {
    const { api, space } = await startBucket();
    let left = 5;
    api.instead = (_, response) => {
      if (left-- <= 0) return false;
      response.writeHead(status).end(failure(status, code).body);
      return true;
    };
    expect(await space.write(key, "x")).toBe(true);
  });

  test("for ever is refused after a bounded number of requests, by its name", async () => {
    const { api, space } = await startBucket();
    api.instead = (_, response) => {
      response.writeHead(503).end(failure(503, "SlowDown").body);
      return true;
    };
    await expect(space.list("now")).rejects.toThrow(
      `the bucket ${api.place.url} answered GET with status 503, SlowDown`,
    );
    expect(api.asked).toHaveLength(6);
  });

  test.each([
    [301, "PermanentRedirect", /elsewhere .*S3_REGION or S3_ENDPOINT/],
    [307, "TemporaryRedirect", /elsewhere/],
    [400, "AuthorizationHeaderMalformed", /S3_REGION/],
    [400, "ExpiredToken", /refuses the credential for GET \(status 400, ExpiredToken\)/],
    [403, "RequestTimeTooSkewed", /set the clock of this machine/],
    [403, "AccessDenied", /refuses the credential for GET \(status 403, AccessDenied\)/],
    [404, "NoSuchBucket", /has no bucket rampart-store/],
    [404, "NotFound", /status 404, NotFound/],
    [405, "<script>", /answered GET with status 405$/],
  ])("says so once for %i %s", async (status, code, sentence) => {
    const { api, space } = await startBucket();
    api.instead = (_, response) => {
      const headers = { location: `${api.origin}/elsewhere` };
      response.writeHead(status, headers).end(failure(status, code).body);
      return true;
    };
    await expect(space.read(key)).rejects.toThrow(sentence);
    expect(api.asked).toHaveLength(1);
  });

  test("never has its credential in a sentence, whatever it quotes", async () => {
    const { api, space } = await startBucket({
      credentials: async () => ({ ...s3Credential, secretAccessKey: "another-secret" }),
    });
    const error = await space.list("now").catch((each: unknown) => each);
    expect(String(error)).toMatch(/refuses the credential .*SignatureDoesNotMatch/);
    expect(JSON.stringify([String(error), error])).not.toMatch(/secret|AKID/);
    expect(api.objects.size).toBe(0);
  });

  test("has its name in the host where the service wants it there, and signs that host", async () => {
    const { api, clock } = await startBucket();
    const asked: (string | undefined)[] = [];
    const capture: Fetch = async (url, { method, headers }) => {
      const { host } = new URL(url);
      const fields = { ...Object.fromEntries(new Headers(headers)), host };
      asked.push(signatureFault({ method, headers: fields }, new URL(url), "", s3Credential), url);
      return new Response(null, { status: 204 });
    };
    const place = { ...api.place, url: "https://rampart-store.s3.test" };
    await new BucketSpace(place, capture, clock).remove(key);
    expect(asked).toEqual([undefined, `https://rampart-store.s3.test/${name}`]);
  });

  test("reads a credential that has been rotated, with its session token", async () => {
    let credential = s3Credential;
    const { api, space } = await startBucket({ credentials: async () => credential });
    await space.write(key, "x");
    api.credential = { accessKeyId: "NEW", secretAccessKey: "other", sessionToken: "of/today=" };
    await expect(space.read(key)).rejects.toThrow(/InvalidAccessKeyId/);
    credential = api.credential;
    expect((await space.read(key))?.value).toBe("x");
  });
});

describe("the proof that a bucket keeps the promises of a store", () => {
  test.each([
    ["if-none-match", /ignores If-None-Match/],
    ["if-match", /ignores If-Match/],
    ["if-match-of-nothing", /creates an object with If-Match/],
  ] as const)(
    "refuses a service that ignores %s, before anything is written",
    async (ignores, why) => {
      const { api, another } = await startBucket();
      api.ignores = ignores;
      const space = another();
      await expect(space.prove()).rejects.toThrow(why);
      await expect(space.write(key, "x")).rejects.toThrow(
        `the bucket ${api.place.url} cannot hold the store: it `,
      );
      expect([...api.objects.keys()]).toEqual([]);
    },
  );

  test.each([
    ["if-none-match", /lets several writers at once create an object/],
    ["if-match", /lets several writers at once replace it/],
  ] as const)("refuses a service that judges %s and writes later", async (races, why) => {
    const { api, another } = await startBucket();
    api.races = races;
    const space = another();
    await expect(space.prove()).rejects.toThrow(why);
    await expect(space.write(key, "x")).rejects.toThrow(why);
    expect([...api.objects.keys()]).toEqual([]);
  });

  test("takes a service that refuses writers while another writes", async () => {
    const { space } = await startBucket();
    const isUnderWay = new Set<string>();
    const busy: ObjectSpace = {
      ...space,
      write: async (at, ...object) => {
        if (isUnderWay.has(at)) throw new FetchError("is busy", { status: 429 });
        isUnderWay.add(at);
        return await space.write(at, ...object).finally(() => isUnderWay.delete(at));
      },
    };
    await requirePromises(busy, "it");
  });

  test("refuses a service that implements no conditional writes", async () => {
    const { api, another } = await startBucket();
    api.instead = ({ headers }, response) => {
      if (headers["if-none-match"] === undefined) return false;
      response.writeHead(501).end(failure(501, "NotImplemented").body);
      return true;
    };
    const space = another();
    await expect(space.prove()).rejects.toThrow(/no conditional writes/);
    await expect(space.write(key, "x")).rejects.toThrow(/no conditional writes/);
  });

  test("refuses a service whose lists lag behind its writes", async () => {
    const { space } = await startBucket();
    const lagging = { ...space, list: async () => new Map() };
    await expect(requirePromises(lagging, "it")).rejects.toThrow(/does not list/);
  });

  test("comes before the first write of a process alone, and leaves no object behind", async () => {
    const { api, another } = await startBucket();
    const proven = another();
    await proven.list("now");
    await proven.read(key);
    expect(api.asked.every((each) => each.startsWith("GET"))).toBe(true);
    await proven.write(key, "x");
    expect([...api.objects.keys()]).toEqual([name]);
    const before = api.asked.length;
    await proven.write("roots/ab", "y");
    expect(api.asked.slice(before)).toEqual(["PUT /rampart-store/mesh-1/roots/ab"]);
  });

  test("does not wait for a service that has not answered, because its process has to start", async () => {
    const { space } = await startBucket();
    const { promise: never } = Promise.withResolvers<never>();
    const fault = new FetchError("did not answer");
    const silent = { ...space, write: () => Promise.reject(fault), remove: () => never };
    await expect(requirePromises(silent, "it")).rejects.toBe(fault);
  });

  test("is repeated where the service was away", async () => {
    const { api, another } = await startBucket();
    api.instead = (_, response) => Boolean(response.destroy());
    const proven = another();
    await expect(proven.write(key, "x")).rejects.toThrow(FetchError);
    api.instead = undefined;
    expect(await proven.write(key, "x")).toBe(true);
  });
});

describe("XML of S3", () => {
  const document = (children: readonly unknown[], text = "") => ({ name: "a", children, text });
  const element = (name: string, text = "") => ({ name, children: [], text });

  test.each([
    ["<a/>", document([])],
    ['<?xml version="1.0"?>\n<a x="1" y=\'2\'><b/>c</a>\n', document([element("b")], "c")],
    ["<s:a xmlns:s='urn:x'><s:b>c</s:b></s:a>", document([element("b", "c")])],
    ["<a>&lt;&amp;&#65;&#x1f511;&quot;</a>", document([], '<&A\u{1f511}"')],
  ])("%j is read", (text, expected) => {
    expect(parseXml(text)).toMatchObject(expected);
  });

  test.each([
    "",
    "a",
    "<a>",
    "</a>",
    "<a></b>",
    "<a/><b/>",
    "<a/>b",
    "<a><!-- c --></a>",
    "<a><![CDATA[c]]></a>",
    '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
    "<a>&b;</a>",
    "<a>&amp</a>",
    "<a>&#0;</a>",
    "<a>&#x110000;</a>",
    "<a b></a>",
    "<a b=c></a>",
    "<a></a b='c'>",
    "<a>".repeat(17) + "</a>".repeat(17),
  ])("%j is refused", (text) => {
    expect(() => parseXml(text)).toThrow(/something else than XML/);
  });
});
