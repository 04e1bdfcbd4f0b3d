import { createServer } from "node:https";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { listenOnLoopback } from "../../../testkit/network/loopback.ts";
import { createTlsIdentity } from "../../../testkit/network/tls-identity.ts";
import { createCrlAuthority } from "../../../testkit/pki/crl-authority.ts";
import { type Between, startPlayedCa } from "./played-ca.ts";

const played = await startPlayedCa();
afterAll(played.end);

const html = { headers: { "content-type": "text/html" } };
const page = (status: number): Response => new Response("<html>no</html>", { ...html, status });
const pathOf = ({ url }: Request): string => new URL(url).pathname;
const isCall = (request: Request): boolean => pathOf(request).endsWith("/CreateCertificate");

/** Changes a JSON document at a path. */
const changing =
  (path: string, change: (json: Record<string, unknown>) => object): Between =>
  async (request, pass) => {
    const response = await pass(request);
    if (pathOf(request) !== path || response.status !== 200) return response;
    return Response.json(change((await response.json()) as Record<string, unknown>));
  };

/** A bundle that changed an hour ago, and ten minutes before that as well, which some looks do not know. */
const lagging =
  (isBehind: (request: Request) => boolean): Between =>
  (request, pass) => {
    const hour = 3_600_000 + (isBehind(request) ? 600_000 : 0);
    const aged = (json: Record<string, unknown>): object => ({
      ...json,
      spiffe_sequence: Number(json["spiffe_sequence"]) - hour,
    });
    return changing("/bundle.json", aged)(request, pass);
  };

/** Has every call after the first ones answered otherwise. */
function after(calls: number, answer: () => Response): Between {
  let count = 0;
  return async (request, pass) => (isCall(request) && ++count > calls ? answer() : pass(request));
}

let looks = 0;

const endedCrl = await (await createCrlAuthority()).crl();

const breaks: readonly (readonly [string, Between, row: string, verdict: string])[] = [
  [
    "a cache at the edge that keeps the bundle",
    lagging(({ url }) => !url.includes("?")),
    "bundle-freshness",
    "broken",
  ],
  [
    "a KV replica that lags ten minutes",
    lagging(({ url }) => url.includes("?") && looks++ % 3 === 0),
    "bundle-freshness",
    "broken",
  ],
  [
    "a bundle of another CA",
    async (request, pass) => (pathOf(request) === "/bundle.pem" ? new Response("") : pass(request)),
    "bundle",
    "broken",
  ],
  [
    "a limit of bodies in front",
    async (request, pass) => {
      const body = await request.clone().bytes();
      return body.length > 8192 ? page(413) : pass(request);
    },
    "request-size",
    "broken",
  ],
  [
    "a proxy that drops the trailers of gRPC-Web",
    async (request, pass) => {
      const response = await pass(request);
      if (!response.headers.get("content-type")?.startsWith("application/grpc-web"))
        return response;
      const body = await response.bytes();
      const [, a = 0, b = 0, c = 0, d = 0] = body;
      const message = body.slice(0, 5 + ((a << 24) | (b << 16) | (c << 8) | d));
      return new Response(message, { headers: { "content-type": "application/grpc-web+proto" } });
    },
    "grpc-web",
    "broken",
  ],
  [
    "a proxy that garbles the message of a refusal",
    async (request, pass) => {
      const response = await pass(request);
      const type = response.headers.get("content-type") ?? "";
      if (!type.startsWith("application/grpc-web")) return response;
      const headers = { "content-type": type, "grpc-status": "7", "grpc-message": "100%" };
      return new Response(null, { headers });
    },
    "grpc-web",
    "broken",
  ],
  [
    "an edge whose clock is ahead",
    async (request, pass) => {
      const response = await pass(request);
      response.headers.set("date", new Date(Date.now() + 300_000).toUTCString());
      return response;
    },
    "clock",
    "broken",
  ],
  ["a route to another site", async () => page(200), "reachable", "broken"],
  ["a route without the RPC", after(0, () => page(404)), "connect", "broken"],
  [
    "a login page in front",
    async () => new Response(null, { status: 302, headers: { location: "https://login.test" } }),
    "reachable",
    "broken",
  ],
  ["a rate limit in front", after(40, () => page(429)), "storm", "broken"],
  [
    "a quota without a wait",
    after(40, () =>
      Response.json({ code: "resource_exhausted", message: "slow down" }, { status: 429 }),
    ),
    "storm",
    "broken",
  ],
  [
    "a gateway that takes the credential away",
    (request, pass) => {
      const without = new Request(request);
      without.headers.delete("authorization");
      return pass(without);
    },
    "connect",
    "broken",
  ],
  [
    "a gateway that puts its own credential on every call",
    (request, pass) => {
      const other = new Request(request);
      other.headers.set("authorization", `Bearer ${played.token}`);
      return pass(other);
    },
    "token-altered",
    "broken",
  ],
  [
    "a gateway that puts another account's credential on later calls",
    (() => {
      let calls = 0;
      return (request: Request, pass: Parameters<Between>[1]) => {
        const other = new Request(request);
        if (isCall(request) && ++calls > 1)
          other.headers.set("authorization", `Bearer ${played.otherToken}`);
        return pass(other);
      };
    })(),
    "grpc-web",
    "broken",
  ],
  [
    "a cache that answers one workload's call with the certificate of another key",
    (() => {
      const kept = new Map<string | null, Response>();
      return async (request: Request, pass: Parameters<Between>[1]) => {
        if (!isCall(request)) return pass(request);
        const type = request.headers.get("content-type");
        const answer = kept.get(type) ?? (await pass(request));
        kept.set(type, answer.clone());
        return answer;
      };
    })(),
    "clock",
    "broken",
  ],
  [
    "a firewall that answers for the CA",
    async (request, pass) =>
      request.headers.get("authorization")?.endsWith(".") ? page(403) : pass(request),
    "token-unsigned",
    "attention",
  ],
  [
    "an API's gateway that refuses tokens in the CA's place",
    async (request, pass) =>
      request.headers.get("authorization")?.endsWith(".")
        ? Response.json({ message: "Unauthorized" }, { status: 401 })
        : pass(request),
    "token-unsigned",
    "attention",
  ],
  [
    "a proxy that ends idle answers",
    async (request, pass) => (request.headers.has("prefer") ? page(504) : pass(request)),
    "long-poll",
    "broken",
  ],
  [
    "a proxy that drops ETags",
    async (request, pass) => {
      const response = await pass(request);
      response.headers.delete("etag");
      return response;
    },
    "bundle-caching",
    "attention",
  ],
  [
    "a CRL that is cut off",
    async (request, pass) => {
      const response = await pass(request);
      return pathOf(request) === "/crl.pem"
        ? new Response((await response.text()).slice(0, 100))
        : response;
    },
    "crl",
    "broken",
  ],
  [
    "a CRL that has ended beside one that has not",
    async (request, pass) => {
      const response = await pass(request);
      return pathOf(request) === "/crl.pem"
        ? new Response(`${await response.text()}${endedCrl}`)
        : response;
    },
    "crl",
    "broken",
  ],
  [
    "a discovery document of another issuer",
    changing("/.well-known/openid-configuration", (json) => ({
      ...json,
      issuer: "https://b.test",
    })),
    "jwt-svid",
    "broken",
  ],
  [
    "a key set from before the last key",
    changing("/.well-known/jwks.json", () => ({ keys: [] })),
    "jwt-svid",
    "broken",
  ],
  [
    "a CA that is not ready",
    changing("/readyz", (json) => ({ ...json, ready: false, reasons: ["no authority"] })),
    "ready",
    "broken",
  ],
];

test("finds nothing wrong where nothing in between changes anything", async () => {
  const rows = await played.playBehind(
    (request, pass) => pass(request),
    ["--yes", "--calls", "20"],
  );
  const wrong = [...rows.values()].filter(({ verdict }) => !/good|skipped/.test(verdict));
  expect(wrong).toEqual([]);
});

test.each(breaks)("names %s", async (_what, between, row, verdict) => {
  const words = row === "storm" ? ["--yes", "--calls", "60"] : [];
  const rows = await played.playBehind(between, words);
  expect(rows.get(row)).toMatchObject({ verdict });
});

test("names TLS that is inspected on the way, and sends no token there", async () => {
  const authorizations: (string | null)[] = [];
  const rows = await played.playBehind(
    (request, pass) => {
      authorizations.push(request.headers.get("authorization"));
      return pass(request);
    },
    ["--no-ca"],
  );
  expect(rows.get("server-certificate")).toMatchObject({ verdict: "broken" });
  expect(rows.get("server-certificate")?.measured).toContain("is TLS inspected");
  expect(rows.get("connect")).toMatchObject({ verdict: "skipped" });
  expect(authorizations.filter((each) => each !== null)).toEqual([]);
});

test("names a CA whose clock is ahead of this machine's", async () => {
  const behind = () => new Date(Date.now() - 300_000);
  const rows = await played.playBehind((request, pass) => pass(request), [], behind);
  expect(rows.get("clock")).toMatchObject({ verdict: "broken" });
  expect(rows.get("clock")?.measured).toContain("the CA: +");
});

test("names a server that still takes TLS 1.1", async () => {
  const { key, ca } = await createTlsIdentity();
  const old = { minVersion: "TLSv1.1", ciphers: "ALL:@SECLEVEL=0" } as const;
  const server = createServer({ key, cert: ca, ...old }, (_request, response) => response.end());
  const { host, close } = await listenOnLoopback(server);
  onTestFinished(close);
  const roots = await played.file("old.pem", ca);
  const terminal = await played.type(["--url", `https://${host}`, "--ca", roots]);
  expect(terminal.printed).toMatch(/tls-version +attention +TLSv1\.3, and TLSv1\.1 is served too/);
});
