import "reflect-metadata/lite";
import { X509Certificate } from "@peculiar/x509";
import { describe, expect, test } from "vitest";
import {
  origin,
  rpcPath,
  type ServiceUnderTest,
  textOf,
  trustDomain,
} from "../service-under-test.ts";

const documents = ["/bundle.pem", "/bundle.json"];

/** The endpoints that operators, probes and verifiers use without a credential. */
export function describeTrustBundleEndpoints(service: () => ServiceUnderTest): void {
  const get = (path: string, headers: HeadersInit = {}, method = "GET") =>
    service().send(new Request(`${origin}${path}`, { method, headers }));

  test("/healthz answers", async () => {
    const response = await get("/healthz");
    expect([response.status, await response.text()]).toEqual([200, "ok\n"]);
  });

  test.each([rpcPath.replace("/Create", "%2FCreate"), "/%62undle.pem"])(
    "%s is not found, because a path has one spelling",
    async (path) => {
      expect((await get(path)).status).toBe(404);
      expect((await get(path, { "content-type": "application/json" }, "POST")).status).toBe(404);
    },
  );

  test("/readyz says that the CA is ready, and which authority signs", async () => {
    const response = await get("/readyz");
    expect(response.status).toBe(200);
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await response.json()).toEqual({
      ready: true,
      authority: expect.stringMatching(/^[0-9a-f]{40}$/),
      reasons: [],
    });
  });

  test("/bundle.pem is the root of the trust domain", async () => {
    const response = await get("/bundle.pem");
    expect(response.status).toBe(200);
    const root = new X509Certificate(await textOf(response));
    expect(root.subject).toBe(`O=${trustDomain}`);
    expect(root.issuer).toBe(root.subject);
    expect(root.notAfter.getTime()).toBeGreaterThan(service().now().getTime());
  });

  test("/bundle.json is a SPIFFE bundle of the same root", async () => {
    const response = await get("/bundle.json");
    expect(response.headers.get("content-type")).toMatch(/^application\/json(?:;|$)/);
    const root = new X509Certificate(await textOf(await get("/bundle.pem")));
    const jwk = await crypto.subtle.exportKey("jwk", await root.publicKey.export());
    expect(await response.json()).toEqual({
      spiffe_sequence: expect.any(Number),
      spiffe_refresh_hint: expect.any(Number),
      keys: [
        {
          use: "x509-svid",
          kty: "EC",
          crv: "P-256",
          x: jwk.x,
          y: jwk.y,
          x5c: [btoa(String.fromCharCode(...new Uint8Array(root.rawData)))],
        },
      ],
    });
  });

  test("/bundle.json has a sequence and a refresh hint that are whole and positive", async () => {
    const { spiffe_sequence, spiffe_refresh_hint } = await (await get("/bundle.json")).json();
    for (const member of [spiffe_sequence, spiffe_refresh_hint]) {
      expect(Number.isSafeInteger(member)).toBe(true);
      expect(member).toBeGreaterThan(0);
    }
    expect(spiffe_refresh_hint).toBeLessThanOrEqual(300);
  });

  describe.each(documents)("%s", (path) => {
    test("has a strong ETag, may be cached for a short while, and answers HEAD without the body", async () => {
      const { headers } = await get(path);
      expect(headers.get("etag")).toMatch(/^"[0-9a-f]{32,}"$/);
      expect(headers.get("cache-control")).toMatch(/^public, max-age=\d{1,2}$/);
      const head = await get(path, {}, "HEAD");
      expect([head.status, await textOf(head)]).toEqual([200, ""]);
      for (const name of ["etag", "cache-control", "content-type"]) {
        expect(head.headers.get(name)).toBe(headers.get(name));
      }
    });

    test.each(["GET", "HEAD"])("is not sent by %s to a client that has it", async (method) => {
      const etag = (await get(path)).headers.get("etag") ?? "";
      const response = await get(path, { "if-none-match": etag, prefer: "wait=0" }, method);
      expect([response.status, await textOf(response)]).toEqual([304, ""]);
      expect(response.headers.get("etag")).toBe(etag);
      expect(response.headers.get("cache-control")).toMatch(/^public/);
      expect(response.headers.get("vary")).toBe("Prefer");
      expect(response.headers.has("preference-applied")).toBe(false);
    });

    test("is sent at once to a client that would wait for ever and has another", async () => {
      const another = '"0123456789abcdef0123456789abcdef"';
      const response = await get(path, { "if-none-match": another, prefer: "wait=999999999" });
      expect(response.status).toBe(200);
      expect(response.headers.get("preference-applied")).toBe("wait=50");
      expect(response.headers.get("cache-control")).toBe("no-store");
    });

    test.each(["POST", "PUT", "DELETE"])("does not answer %s", async (method) => {
      expect((await get(path, {}, method)).status).toBeGreaterThanOrEqual(404);
    });
  });

  test.concurrent.each(
    ["GET", "HEAD"].flatMap((method) => documents.map((path) => ({ method, path }))),
  )(
    "a $method of $path that prefers to wait is held, and no cache keeps the answer",
    async ({ method, path }) => {
      const etag = (await get(path)).headers.get("etag") ?? "";
      const response = await get(path, { "if-none-match": etag, prefer: "wait=1" }, method);
      expect(response.status).toBe(304);
      expect(response.headers.get("preference-applied")).toBe("wait=1");
      expect(response.headers.get("cache-control")).toBe("no-store");
      expect(response.headers.get("vary")).toBe("Prefer");
    },
  );

  test.each(["/bundle.pem/", "/metrics", "/.well-known/x"])("%s is not found", async (path) => {
    expect((await get(path)).status).toBe(404);
  });
}
