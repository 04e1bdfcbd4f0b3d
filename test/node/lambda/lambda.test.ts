import { writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { stringify } from "smol-toml";
import { describe, expect, onTestFinished, test } from "vitest";
import { isScheduled, parseRequest, toAnswer } from "../../../src/node/lambda/events.ts";
import { createLambda, parseLambdaConfiguration } from "../../../src/node/lambda/lambda.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { awsFault } from "../../testkit/key-services/aws-kms.ts";
import { listenWithKek } from "../../testkit/key-services/listening-kek.ts";
import { type S3Api, s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const request = {
  version: "2.0",
  rawPath: "/bundle.pem",
  rawQueryString: "",
  headers: { "x-forwarded-for": "198.51.100.7", accept: "*/*" },
  requestContext: {
    domainName: "a.lambda-url.test",
    http: { method: "GET", sourceIp: "192.0.2.1" },
  },
  isBase64Encoded: false,
};

const by = (method: string): typeof request => ({
  ...request,
  requestContext: { ...request.requestContext, http: { method, sourceIp: "192.0.2.1" } },
});

const scheduled = { source: "aws.events", "detail-type": "Scheduled Event" };

describe("an event", () => {
  test("is a schedule's or a request, never both", () => {
    expect(isScheduled(scheduled)).toBe(true);
    expect(isScheduled({ ...scheduled, "detail-type": "EC2 Instance State-change" })).toBe(false);
    expect(isScheduled({ ...request, body: JSON.stringify(scheduled) })).toBe(false);
  });

  test("is a request whose peer is AWS's word, not a header's", async () => {
    const parsed = parseRequest(request);
    expect(parsed?.request.url).toBe("https://a.lambda-url.test/bundle.pem");
    expect(parsed?.peer).toEqual({ address: "192.0.2.1" });
  });

  test.each<[string, object, readonly number[]]>([
    ["octets in base64", { body: "AP8=", isBase64Encoded: true }, [0, 255]],
    ["no body", { body: null }, []],
    ["text as it is", { body: "é" }, [0xc3, 0xa9]],
  ])("has %s", async (_, body, octets) => {
    const parsed = parseRequest({ ...by("POST"), ...body });
    expect(await parsed?.request.bytes()).toEqual(Uint8Array.from(octets));
  });

  test.each([
    ["a field that is no text of HTTP", { ...request, headers: { "x-a": "€" } }],
    ["a method that no server takes", by("TRACE")],
    ["a body that is no base64", { ...by("POST"), body: "é", isBase64Encoded: true }],
    ["a path that was decoded to a query", { ...request, rawPath: "/bundle.pem?a" }],
    ["a path that was decoded to a fragment", { ...request, rawPath: "/bundle.pem#a" }],
    ["a path that was decoded to another", { ...request, rawPath: "/log/../bundle.pem" }],
    ["a path that names another host", { ...request, rawPath: "@other.test/bundle.pem" }],
  ])("with %s is no request", (_, event) => {
    expect(parseRequest(event)).toBeUndefined();
  });

  test.each([
    ["payload format 1.0", { version: "1.0", httpMethod: "GET", path: "/" }],
    ["nothing", undefined],
    ["a request without a context", { ...request, requestContext: {} }],
  ])("that is %s is refused", (_, event) => {
    expect(() => parseRequest(event)).toThrow(/payload format 2\.0/);
  });

  test("is answered in base64", async () => {
    const response = new Response(new Uint8Array([0, 255]), { headers: { "x-a": "b" } });
    expect(await toAnswer(response)).toMatchObject({
      statusCode: 200,
      body: "AP8=",
      isBase64Encoded: true,
      headers: { "x-a": "b" },
    });
  });
});

const issuer = { issuer: "https://issuer.example.test", namespaces: ["*"] };

describe("a function", () => {
  test("takes a store in a bucket alone", () => {
    const values = { STORE_DIRECTORY: "/var/lib/rampart", KEK: randomKek(), ISSUERS: [issuer] };
    expect(() => parseLambdaConfiguration(values, {})).toThrow(/STORE: must be "s3" on Lambda/);
  });

  async function functionOf(values: object, secrets: object = { KEK: randomKek() }) {
    const api = await startS3Api();
    onTestFinished(api.close);
    const file = join(await temporaryFolder(), "rampart.toml");
    const keys = {
      ...api.storeKeys,
      ISSUERS: [issuer],
      INCEPTION_DATE: "2026-11-21",
      PROPAGATION_INTERVAL: "10s",
    };
    await writeFile(file, stringify({ ...keys, ...values }));
    let now = new Date("2026-11-21T12:00:00Z");
    const lines: string[] = [];
    const handler = createLambda({
      file,
      clock: () => now,
      write: (line) => void lines.push(line),
      environment: {
        ...secrets,
        AWS_ACCESS_KEY_ID: s3Credential.accessKeyId,
        AWS_SECRET_ACCESS_KEY: s3Credential.secretAccessKey,
      },
    });
    const pass = (seconds: number): void => {
      now = new Date(now.getTime() + 1000 * seconds);
    };
    return { api, handler, pass, lines };
  }

  test("founds a CA by its schedule, and answers for it", async () => {
    const { handler, pass } = await functionOf({});
    expect((await handler(request))?.statusCode).toBe(503);
    expect(await handler(scheduled)).toBeUndefined();
    pass(60);
    const { body = "" } = (await handler(request)) ?? {};
    expect(Buffer.from(body, "base64").toString()).toContain("BEGIN CERTIFICATE");
  });

  test("that starts in an outage of its key service refuses, and goes on after it, with its log", async () => {
    const { service, secrets } = await listenWithKek();
    service.fault = awsFault("KMSInternalException", "", 500);
    const values = { LOG_ORIGIN: "log.example.com/2026" };
    const { handler, pass } = await functionOf(values, secrets);
    await expect(handler(scheduled)).rejects.toThrow("the KEK is not open");
    const refused = await handler(request);
    expect([refused?.statusCode, refused?.headers]).toEqual([
      503,
      expect.objectContaining({ "retry-after": expect.any(String) }),
    ]);
    service.fault = undefined;
    pass(2);
    expect(await handler(scheduled)).toBeUndefined();
    pass(60);
    expect((await handler(request))?.statusCode).toBe(200);
  });

  test("has its KEK opened again within a request, since nothing goes on behind one", async () => {
    const { service, secrets } = await listenWithKek();
    const { handler, pass, lines } = await functionOf({ KEK_LEASE: "10m" }, secrets);
    await handler(scheduled);
    pass(60);
    service.fault = awsFault("KMSInternalException", "", 500);
    expect((await handler(request))?.statusCode).toBe(200);
    expect(lines.filter((line) => line.includes("kek-unavailable"))).toHaveLength(1);
    service.fault = undefined;
    pass(60);
    const { length } = service.asked;
    expect((await handler(request))?.statusCode).toBe(200);
    expect(service.asked).toHaveLength(length + 1);
  });

  test("warns of a key in its environment, which it does not read there", async () => {
    const { handler, lines } = await functionOf({}, { KEK: randomKek(), CRL: "on" });
    await handler(scheduled);
    const ignored = lines.filter((line) => line.includes("variable-ignored"));
    expect(ignored).toEqual([expect.stringContaining('"name":"CRL"')]);
  });

  test("answers a request that is none by 400, and goes on", async () => {
    const { handler } = await functionOf({});
    expect(await handler(scheduled)).toBeUndefined();
    const answer = await handler({ ...request, headers: { "x-a": "€" } });
    expect([answer?.statusCode, answer?.isBase64Encoded]).toEqual([400, true]);
    expect((await handler(request))?.statusCode).not.toBe(400);
  });

  test("starts with a later event where its bucket was away, and never with a log on one that ignores conditions", async () => {
    const { api, handler } = await functionOf({ LOG_ORIGIN: "log.example.com/2026" });
    api.instead = (_, response) => {
      response.writeHead(418).end();
      return true;
    };
    await expect(handler(scheduled)).rejects.toThrow("status 418");
    Object.assign(api, { instead: undefined, ignores: "if-match" });
    await expect(handler(scheduled)).rejects.toThrow("ignores If-Match");
    api.ignores = undefined;
    expect(await handler(scheduled)).toBeUndefined();
  });

  test("publishes its log though the rotation fails, and fails its schedule when either does", async () => {
    const { api, handler, pass } = await functionOf({ LOG_ORIGIN: "log.example.com/2026" });
    const away =
      (part: string): S3Api["instead"] =>
      ({ url = "" }, response) => {
        const isMeant = url.includes(part) && !url.includes("probes");
        if (isMeant) response.writeHead(403).end();
        return isMeant;
      };
    const ends = (): readonly string[] => [...api.objects.keys()].map((key) => basename(key));
    api.instead = away("/mesh-1/authorities/");
    await expect(handler(scheduled)).rejects.toThrow("status 403");
    expect(ends()).toEqual(expect.arrayContaining(["checkpoint", "vkey"]));
    api.instead = away("/mesh-1-log/");
    pass(60);
    await expect(handler(scheduled)).rejects.toThrow("status 403");
    expect([...api.objects.keys()].join()).toContain("/authorities/");
    api.instead = undefined;
    pass(60);
    expect(await handler(scheduled)).toBeUndefined();
  });

  test("with a faulty configuration answers 503, and fails its schedule", async () => {
    const { handler } = await functionOf({ NO_SUCH_KEY: 1 });
    expect((await handler({ ...request, rawPath: "/readyz" }))?.statusCode).toBe(503);
    await expect(handler(scheduled)).rejects.toThrow(/NO_SUCH_KEY/);
  });
});
