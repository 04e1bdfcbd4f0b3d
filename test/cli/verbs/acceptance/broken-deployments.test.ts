import { createServer } from "node:https";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { listenOnLoopback } from "../../../testkit/network/loopback.ts";
import { createTlsIdentity } from "../../../testkit/network/tls-identity.ts";
import { createCrlAuthority } from "../../../testkit/pki/crl-authority.ts";
import { type Between, startPlayedCa } from "./played-ca.ts";

const played = await startPlayedCa();
afterAll(played.end);

const page = (status: number): Response =>
  new Response("<html>no</html>", { headers: { "content-type": "text/html" }, status });
const pathOf = ({ url }: Request): string => new URL(url).pathname;
const isCall = (request: Request): boolean => pathOf(request).endsWith("/CreateCertificate");
const isUnsigned = ({ headers }: Request) => headers.get("authorization")?.endsWith(".") === true;

const answering =
  (isMeant: (request: Request) => boolean, answer: () => Response): Between =>
  async (request, pass) =>
    isMeant(request) ? answer() : pass(request);

const changing =
  (path: string, change: (response: Response) => Response | Promise<Response>): Between =>
  async (request, pass) => {
    const response = await pass(request);
    return path === "" || pathOf(request) === path ? change(response) : response;
  };

const changingJson = (path: string, change: (json: Record<string, unknown>) => object): Between =>
  changing(path, async (response) => {
    if (response.status !== 200) return response;
    const { headers } = response;
    headers.delete("content-length");
    return Response.json(change(await response.json()), { headers });
  });

const withCredential =
  (token: string | undefined, isMeant: (request: Request) => boolean = () => true): Between =>
  (request, pass) => {
    const other = new Request(request);
    if (isMeant(request) && token) other.headers.set("authorization", `Bearer ${token}`);
    if (!token) other.headers.delete("authorization");
    return pass(other);
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
    return changingJson("/bundle.json", aged)(request, pass);
  };

function after(calls: number): (request: Request) => boolean {
  let count = 0;
  return (request) => isCall(request) && ++count > calls;
}

const ofGrpcWeb = (change: (response: Response, type: string) => Response | Promise<Response>) =>
  changing("", (response) => {
    const type = response.headers.get("content-type") ?? "";
    return type.startsWith("application/grpc-web") ? change(response, type) : response;
  });

function caching(): Between {
  const kept = new Map<string | null, Response>();
  return async (request, pass) => {
    if (!isCall(request)) return pass(request);
    const type = request.headers.get("content-type");
    const answer = kept.get(type) ?? (await pass(request));
    kept.set(type, answer.clone());
    return answer;
  };
}

let looks = 0;

const otherCa = await createCrlAuthority();
const endedCrl = await otherCa.crl();
const toLogin = () =>
  new Response(null, { status: 302, headers: { location: "https://login.test" } });
const json = (status: number, body: object) => () => Response.json(body, { status });
const slowDown = { code: "resource_exhausted", message: "slow down" };

/** What stands behind one another in front of one CA, by the row that names it. */
const stacks: readonly Readonly<Record<string, Between>>[] = [
  {
    // A CA that is not ready.
    ready: changingJson("/readyz", (status) => ({ ...status, ready: false, reasons: ["a fault"] })),
    // An edge whose clock is ahead.
    clock: changing("", (response) => {
      response.headers.set("date", new Date(Date.now() + 300_000).toUTCString());
      return response;
    }),
    // A firewall that answers for the CA.
    "token-unsigned": answering(isUnsigned, () => page(403)),
    // A limit of bodies.
    "request-size": async (request, pass) =>
      (await request.clone().bytes()).length > 8192 ? page(413) : pass(request),
    // A bundle of another CA.
    bundle: changing("/bundle.pem", () => new Response("")),
    // A cache at the edge that keeps the bundle.
    "bundle-freshness": lagging(({ url }) => !url.includes("?")),
    // A proxy that drops ETags.
    "bundle-caching": changing("", (response) => {
      response.headers.delete("etag");
      return response;
    }),
    // A proxy that ends idle answers.
    "long-poll": answering(
      ({ headers }) => headers.has("prefer"),
      () => page(504),
    ),
    // A CRL that is cut off.
    crl: changing(
      "/crl.pem",
      async (response) => new Response((await response.text()).slice(0, 100)),
    ),
    // A discovery document of another issuer.
    "jwt-svid": changingJson("/.well-known/openid-configuration", (document) => ({
      ...document,
      issuer: "https://b.test",
    })),
    // A rate limit.
    storm: answering(after(40), () => page(429)),
  },
  {
    // An API's gateway that refuses tokens in the CA's place.
    "token-unsigned": answering(isUnsigned, json(401, { message: "Unauthorized" })),
    // A KV replica that lags ten minutes.
    "bundle-freshness": lagging(({ url }) => url.includes("?") && looks++ % 3 === 0),
    // A CRL that has ended beside one that has not.
    crl: changing(
      "/crl.pem",
      async (response) => new Response(`${await response.text()}${endedCrl}`),
    ),
    // A key set from before the last key.
    "jwt-svid": changingJson("/.well-known/jwks.json", () => ({ keys: [] })),
    // A quota without a wait.
    storm: answering(after(40), json(429, slowDown)),
  },
];

/** The rows that call attention to what the others call broken. */
const mild = ["token-unsigned", "bundle-caching"];

/** What spoils several rows, each with one that names it. */
const others: readonly (readonly [string, Between, row: string])[] = [
  [
    "a proxy that drops the trailers of gRPC-Web",
    ofGrpcWeb(async (response) => {
      const body = await response.bytes();
      const [, a = 0, b = 0, c = 0, d = 0] = body;
      const message = body.slice(0, 5 + ((a << 24) | (b << 16) | (c << 8) | d));
      return new Response(message, { headers: { "content-type": "application/grpc-web+proto" } });
    }),
    "grpc-web",
  ],
  [
    "a proxy that garbles the message of a refusal",
    ofGrpcWeb((_, type) => {
      const headers = { "content-type": type, "grpc-status": "7", "grpc-message": "100%" };
      return new Response(null, { headers });
    }),
    "grpc-web",
  ],
  ["a route to another site", async () => page(200), "reachable"],
  ["a route without the RPC", answering(isCall, () => page(404)), "connect"],
  ["a login page in front", async () => toLogin(), "reachable"],
  ["a gateway that takes the credential away", withCredential(undefined), "connect"],
  [
    "a gateway that puts its own credential on every call",
    withCredential(played.token),
    "token-altered",
  ],
  [
    "a gateway that puts another account's credential on later calls",
    withCredential(played.otherToken, after(1)),
    "grpc-web",
  ],
  [
    "a cache that answers one workload's call with the certificate of another key",
    caching(),
    "clock",
  ],
];

test.each(stacks)("names each of several faults at once, and nothing else", async (stack) => {
  const between = Object.values(stack).reduce(
    (outer, inner) => (request, pass) => outer(request, (each) => inner(each, pass)),
  );
  const rows = await played.playBehind(between, ["--yes", "--calls", "60"]);
  const wrong = [...rows.values()].filter(({ verdict }) => /attention|broken/.test(verdict));
  expect(wrong.map(({ name, verdict }) => `${name} ${verdict}`).toSorted()).toEqual(
    Object.keys(stack)
      .map((name) => `${name} ${mild.includes(name) ? "attention" : "broken"}`)
      .toSorted(),
  );
});

test.each(others)("names %s", async (_what, between, row) => {
  const rows = await played.playBehind(between);
  expect(rows.get(row)).toMatchObject({ verdict: "broken" });
});

test("names TLS that is inspected on the way, and sends no token there", async () => {
  const authorizations: (string | null)[] = [];
  const rows = await played.playBehind(
    (request, pass) => {
      authorizations.push(request.headers.get("authorization"));
      return pass(request);
    },
    ["--ca", await played.file("other.pem", otherCa.ca.pem)],
  );
  expect(rows.get("server-certificate")).toMatchObject({ verdict: "broken" });
  expect(rows.get("server-certificate")?.measured).toContain("is TLS inspected");
  expect(rows.get("connect")).toMatchObject({ verdict: "skipped" });
  expect(authorizations.filter((each) => each !== null)).toEqual([]);
});

test("names a CA whose clock is ahead of this machine's", async () => {
  const behind = () => new Date(Date.now() - 300_000);
  const rows = await played.playBehind((request, pass) => pass(request), [], { clock: behind });
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
