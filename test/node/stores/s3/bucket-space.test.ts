import { afterEach, describe, expect, test } from "vitest";
import { maximumRecordOctets } from "../../../src/custody/authority-store.ts";
import { createSharedStore } from "../../../src/custody/shared/shared-store.ts";
import { createTurns } from "../../../src/custody/shared/turns.ts";
import { type Fetch, FetchError } from "../../../src/foundation/http/json-fetch.ts";
import { patientBucket } from "../../../src/node/stores/s3/open-bucket.ts";
import { proveFirst } from "../../../src/node/stores/s3/proven-space.ts";
import { listSeldom } from "../../../src/node/stores/s3/recent-list.ts";
import { describeAuthorityStore } from "../../contract/authority-store.ts";
import { spacePromises } from "../../contract/object-space.ts";
import {
  failure,
  type S3Api,
  s3Credential,
  signatureFault,
  startS3Api,
} from "../../testkit/stores/s3-api.ts";

const services: S3Api[] = [];
afterEach(async () => {
  for (const service of services.splice(0)) await service.close();
});

const noPause = async (): Promise<void> => {};

async function start(changes: Partial<S3Api["place"]> = {}) {
  const api = await startS3Api();
  services.push(api);
  const time = { now: Date.now() };
  const clock = () => new Date(time.now);
  const another = () => patientBucket({ ...api.place, ...changes }, fetch, clock, noPause);
  return { api, another, space: another(), clock, time };
}

const id = "ab".repeat(20);
const key = `authorities/${id}`;
const name = `mesh-1/${key}`;

describeAuthorityStore(async () => createSharedStore((await start()).space));

describe("objects of a stand-in for a bucket", () => {
  test.each(Object.entries(spacePromises))("%s", async (_, promise) =>
    promise((await start()).space),
  );

  test.each(Object.entries(spacePromises))("%s, with recent lists and a proof", async (_, of) => {
    const { space, clock } = await start();
    await of(listSeldom(proveFirst(space, "it").space, 15, clock));
  });
});

describe("the records in a bucket", () => {
  test("have names that an operator can read, and all of their text", async () => {
    const { api, space } = await start();
    await space.write(key, '{"version":1}');
    expect([...api.objects.keys()]).toEqual([name]);
    expect(api.objects.get(name)?.body).toMatch(/^rampart object 1 [0-9a-f-]{36}\n{"version":1}$/);
  });

  test("may be those of a whole bucket", async () => {
    const { api, space } = await start({ prefix: "" });
    await space.write(key, "x");
    expect([...api.objects.keys()]).toEqual([key]);
    expect([...(await space.list("now")).keys()]).toEqual([key]);
  });

  test.each(["", "authorities/", "Authorities/ab", "a b", "a/../b", `a/${"a".repeat(1025)}`])(
    "have no name for the key %j",
    async (each) => {
      const { api, space } = await start();
      await expect(space.write(each, "")).rejects.toThrow(/name/);
      expect(api.asked).toEqual([]);
    },
  );

  test("are not mistaken for other objects, which are not even read", async () => {
    const { api, space } = await start();
    api.put("mesh-2/authorities/ab", "x");
    api.put("mesh-1/Backup of Friday.json", "x");
    api.put("mesh-1/authorities/", "");
    expect(await space.list("now")).toEqual(new Map());
    expect(api.asked).toEqual(["GET /rampart-store"]);
  });

  test.each([
    ["has another form", "sealed"],
    ["is longer than any record", `rampart object 1 ${id.slice(4)}\n${"x".repeat(300_000)}`],
  ])("are empty where the object %s, and not overlooked", async (_, body) => {
    const { api, space } = await start();
    api.objects.set(`mesh-1/taints/${id}`, { body, entityTag: '"a"' });
    expect(await createSharedStore(space).load()).toEqual([{ kind: "taint", id, value: "" }]);
  });

  test("change their version with each write, even of the same value", async () => {
    const { space } = await start();
    await space.write(key, "same");
    const first = (await space.read(key))?.version;
    await space.write(key, "same", first);
    expect((await space.read(key))?.version).not.toBe(first);
    expect(await space.write(key, "same", first)).toBe(false);
  });

  test("are read once, and again when they have changed", async () => {
    const { api, space, another } = await start();
    for (const each of ["a", "b", "c"]) await space.write(`roots/${each}`, each);
    const other = another();
    await other.list("now");
    const before = api.asked.length;
    await other.list("now");
    expect(api.asked.slice(before)).toEqual(["GET /rampart-store"]);
    await space.write("roots/b", "new", (await space.read("roots/b"))?.version);
    expect((await other.list("now")).get("roots/b")?.value).toBe("new");
    await space.remove("roots/a");
    expect([...(await other.list("now")).keys()]).toEqual(["roots/b", "roots/c"]);
  });

  test("are left out of a list where one was removed meanwhile", async () => {
    const { api, space } = await start();
    await space.write(key, "x");
    api.instead = (request, response) => {
      if (request.url !== `/rampart-store/${name}`) return false;
      const { status, body } = failure(404, "NoSuchKey");
      response.writeHead(status).end(body);
      return true;
    };
    expect(await space.list("now")).toEqual(new Map());
  });
});

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
    const { api, space } = await start();
    api.loses = once();
    expect(await space.write(key, "mine")).toBe(true);
    expect(api.asked.filter((each) => each.startsWith("PUT"))).toHaveLength(2);
  });

  test("confirms a replaced object to the writer that replaced it", async () => {
    const { api, space } = await start();
    await space.write(key, "first");
    const version = (await space.read(key))?.version;
    api.loses = once();
    expect(await space.write(key, "second", version)).toBe(true);
    expect((await space.read(key))?.value).toBe("second");
  });

  test("confirms nothing to a writer who came second with the same value", async () => {
    const { api, space, another } = await start();
    await another().write(key, "same");
    api.loses = once();
    expect(await space.write(key, "same")).toBe(false);
  });

  test("gives a turn to the replica that took it", async () => {
    const { api, space, clock } = await start();
    const turnSeconds = 60;
    api.loses = once();
    expect(
      await createTurns(space, { identity: "a", clock, turnSeconds }).take(async () => {}),
    ).toBe(true);
    expect(
      await createTurns(space, { identity: "b", clock, turnSeconds }).take(async () => {}),
    ).toBe(true);
  });
});

describe("a bucket that is busy or broken", () => {
  test.each([
    [503, "SlowDown"],
    [500, "InternalError"],
    [429, "TooManyRequests"],
    [409, "ConditionalRequestConflict"],
  ])("with %i %s is asked again", async (status, code) => {
    const { api, space } = await start();
    let left = 5;
    api.instead = (_, response) => {
      if (left-- <= 0) return false;
      response.writeHead(status).end(failure(status, code).body);
      return true;
    };
    expect(await space.write(key, "x")).toBe(true);
  });

  test("for ever is refused after a bounded number of requests, by its name", async () => {
    const { api, space } = await start();
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
    const { api, space } = await start();
    api.instead = (_, response) => {
      const headers = { location: `${api.origin}/elsewhere` };
      response.writeHead(status, headers).end(failure(status, code).body);
      return true;
    };
    await expect(space.read(key)).rejects.toThrow(sentence);
    expect(api.asked).toHaveLength(1);
  });

  test("never has its credential in a sentence, whatever it quotes", async () => {
    const { api, space } = await start({
      credentials: async () => ({ ...s3Credential, secretAccessKey: "another-secret" }),
    });
    const error = await space.list("now").catch((each: unknown) => each);
    expect(String(error)).toMatch(/refuses the credential .*SignatureDoesNotMatch/);
    expect(JSON.stringify([String(error), error])).not.toMatch(/secret|AKID/);
    expect(api.objects.size).toBe(0);
  });

  test("has its name in the host where the service wants it there, and signs that host", async () => {
    const { api, clock } = await start();
    const asked: (string | undefined)[] = [];
    const capture: Fetch = async (url, { method, headers }) => {
      const { host } = new URL(url);
      const fields = { ...Object.fromEntries(new Headers(headers)), host };
      asked.push(signatureFault({ method, headers: fields }, new URL(url), "", s3Credential), url);
      return new Response(null, { status: 204 });
    };
    const place = { ...api.place, url: "https://rampart-store.s3.test" };
    await patientBucket(place, capture, clock).remove(key);
    expect(asked).toEqual([undefined, `https://rampart-store.s3.test/${name}`]);
  });

  test("reads a credential that has been rotated, with its session token", async () => {
    let credential = s3Credential;
    const { api, space } = await start({ credentials: async () => credential });
    await space.write(key, "x");
    api.credential = { accessKeyId: "NEW", secretAccessKey: "other", sessionToken: "of/today=" };
    await expect(space.read(key)).rejects.toThrow(/InvalidAccessKeyId/);
    credential = api.credential;
    expect((await space.read(key))?.value).toBe("x");
  });
});

describe("a hostile bucket", () => {
  const page = (rest: string): string =>
    `<ListBucketResult><IsTruncated>false</IsTruncated>${rest}</ListBucketResult>`;
  const object = (at: string): string =>
    `<Contents><Key>mesh-1/${at}</Key><ETag>"a"</ETag></Contents>`;
  const more =
    "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken>";

  async function listing(answer: (count: number) => string) {
    const { api, space } = await start();
    let count = 0;
    api.instead = (request, response) => {
      if (!request.url?.includes("list-type")) return false;
      response.end(answer(count++));
      return true;
    };
    return { api, list: () => space.list("now") };
  }

  test.each([
    ["is empty", ""],
    ["is cut", page(object("roots/ab")).slice(0, -30)],
    ["says nothing of its end", "<ListBucketResult></ListBucketResult>"],
    ["has no token for the rest", more.replace(/<Next.*/, "</ListBucketResult>")],
    ["has no end for a tag", "<ListBucketResult><IsTruncated>false</ListBucketResult>"],
    ["is another document", "<html>welcome</html>"],
    ["is an error with status 200", "<Error><Code>InternalError</Code></Error>"],
    ["has an object twice", page(object("roots/ab").repeat(2))],
    ["has an object of another prefix", page(object("roots/ab").replace("mesh-1", "mesh-2"))],
    ["has an object without a version", page("<Contents><Key>mesh-1/roots/ab</Key></Contents>")],
    ["has a name that no URL has", page(`<EncodingType>url</EncodingType>${object("%ff")}`)],
    ["declares an entity", `<!DOCTYPE a [<!ENTITY e "x">]>${page("")}`],
    ["nests without end", "<a>".repeat(1000)],
    ["says its end twice", page("<IsTruncated>false</IsTruncated>")],
  ])("is refused where its list %s", async (_, text) => {
    const { list } = await listing(() => text);
    await expect(list()).rejects.toThrow(FetchError);
  });

  test("is refused where its list goes round, or has empty pages without end", async () => {
    const round = await listing(() => `${more}${object("roots/ab")}</ListBucketResult>`);
    await expect(round.list()).rejects.toThrow(/something else than a list/);
    expect(round.api.asked).toHaveLength(2);
    const empty = await listing(() => `${more}</ListBucketResult>`);
    await expect(empty.list()).rejects.toThrow(/something else than a list/);
    expect(empty.api.asked).toHaveLength(1);
  });

  test("is refused where its list has more objects than any CA", async () => {
    const { list, api } = await listing((count) => {
      const names = Array.from({ length: 4000 }, (_, i) => object(`roots/${count}-${i}`));
      return `${more}${names.join("")}</ListBucketResult>`;
    });
    await expect(list()).rejects.toThrow(/more objects/);
    expect(api.asked).toHaveLength(3);
  });

  test("is refused where a page is longer than a thousand objects", async () => {
    const { list } = await listing(() => page("x".repeat(5 * 1024 * 1024)));
    await expect(list()).rejects.toThrow(FetchError);
  });

  test("is refused where an object has no entity tag", async () => {
    const { api, space } = await start();
    api.instead = (_, response) => Boolean(response.end("rampart object 1 x\n"));
    await expect(space.read(key)).rejects.toThrow(/without an entity tag/);
  });

  test("may show a part of the records, or old ones, and then all of them again", async () => {
    const { api, space } = await start();
    await space.write(key, "first");
    await space.write("roots/ab", "root");
    let partial: string | undefined = page(object("roots/ab"));
    api.instead = (request, response) =>
      partial !== undefined && request.url?.includes("list-type")
        ? Boolean(response.end(partial))
        : false;
    expect([...(await space.list("now")).keys()]).toEqual(["roots/ab"]);
    partial = undefined;
    expect((await space.list("now")).get(key)?.value).toBe("first");
  });
});

describe("a service that is proven", () => {
  test.each([
    ["if-none-match", /ignores If-None-Match/],
    ["if-match", /ignores If-Match/],
    ["if-match-of-nothing", /creates an object with If-Match/],
  ] as const)(
    "is refused where it ignores %s, before anything is written",
    async (ignores, why) => {
      const { api, space } = await start();
      api.ignores = ignores;
      const { prove, space: proven } = proveFirst(space, "the bucket");
      await expect(prove()).rejects.toThrow(why);
      await expect(proven.write(key, "x")).rejects.toThrow(
        /^the bucket cannot hold the store: it /,
      );
      expect([...api.objects.keys()]).toEqual([]);
    },
  );

  test("is refused where it implements no condition", async () => {
    const { api, space } = await start();
    api.instead = ({ headers }, response) => {
      if (headers["if-none-match"] === undefined) return false;
      response.writeHead(501).end(failure(501, "NotImplemented").body);
      return true;
    };
    await expect(proveFirst(space, "it").prove()).rejects.toThrow(/no conditional writes/);
  });

  test("is refused where its lists lag behind its writes", async () => {
    const { space } = await start();
    const lagging = { ...space, list: async () => new Map() };
    await expect(proveFirst(lagging, "it").prove()).rejects.toThrow(/does not list/);
  });

  test("shows it once in a process, leaves nothing behind, and is asked for nothing to read", async () => {
    const { api, space } = await start();
    const { space: proven } = proveFirst(space, "it");
    await proven.list("now");
    await proven.read(key);
    expect(api.asked.every((each) => each.startsWith("GET"))).toBe(true);
    await proven.write(key, "x");
    expect([...api.objects.keys()]).toEqual([name]);
    const before = api.asked.length;
    await proven.write("roots/ab", "y");
    expect(api.asked.slice(before)).toEqual(["PUT /rampart-store/mesh-1/roots/ab"]);
  });

  test("is asked again where it was away", async () => {
    const { api, space } = await start();
    api.instead = (_, response) => Boolean(response.destroy());
    const { space: proven } = proveFirst(space, "it");
    await expect(proven.write(key, "x")).rejects.toThrow(FetchError);
    api.instead = undefined;
    expect(await proven.write(key, "x")).toBe(true);
  });
});

describe("recent lists of a bucket", () => {
  test("are requested once in their time for all who ask, and whenever they have to be fresh", async () => {
    const { api, space, another, clock, time } = await start();
    const seldom = listSeldom(space, 15, clock);
    await Promise.all([seldom.list("recent"), seldom.list("recent"), seldom.list("recent")]);
    expect(api.asked).toHaveLength(1);
    await another().write(key, "of the other");
    expect((await seldom.list("recent")).size).toBe(0);
    expect((await seldom.list("now")).size).toBe(1);
    expect((await seldom.list("recent")).size).toBe(1);
    await another().remove(key);
    time.now += 15_000;
    expect((await seldom.list("recent")).size).toBe(0);
  });

  test("show an own write at once, and what failed is asked for again", async () => {
    const { api, space, clock } = await start();
    const seldom = listSeldom(space, 15, clock);
    await seldom.list("recent");
    await seldom.write(key, "own");
    expect((await seldom.list("recent")).get(key)?.value).toBe("own");
    await seldom.remove(key);
    expect((await seldom.list("recent")).size).toBe(0);
    api.instead = (_, response) => Boolean(response.writeHead(403).end());
    await expect(seldom.list("now")).rejects.toThrow(/refuses/);
    api.instead = undefined;
    expect((await seldom.list("recent")).size).toBe(0);
  });
});

test("a record may be as long in a bucket as anywhere", async () => {
  const { space } = await start();
  const value = "é".repeat(maximumRecordOctets / 2);
  await space.write(key, value);
  expect((await space.list("now")).get(key)?.value).toBe(value);
});
