import { Hono } from "hono";
import { afterAll, expect, test } from "vitest";
import type { UpstreamTrust } from "../../../src/node/distribute/upstream-trust.ts";
import { forwardingRpcs } from "../../../src/node/gateway/forwarding.ts";
import { SlowCalls } from "../../../src/node/gateway/slow-calls.ts";
import { addTrustRoutes } from "../../../src/node/gateway/trust-routes.ts";
import { openUpstream } from "../../../src/node/gateway/upstream.ts";
import { listenInPlaintext } from "../../../src/node/http/listener.ts";
import { JwtSvidKeys } from "../../../src/pki/jose/jwt-svid-keys.ts";
import {
  describeJwtSvids,
  describeNoJwtSvids,
  type StartTokens,
  tokenValues,
} from "../../contract/tokens/jwt-svids.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { connectHttp2 } from "../../testkit/network/http2-client.ts";
import { startRawServer } from "../../testkit/network/raw-server.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";

const key = await createTokenKey("ES256", "k1");
const log = createEventRecorder();

/** The RPCs of a gateway before a CA, and that CA's documents. */
async function startGateway(ca: string) {
  const upstream = openUpstream(ca, () => undefined);
  const rpcs = forwardingRpcs({
    upstream,
    slowCalls: new SlowCalls(),
    trustDomain: clusterLocal,
    log,
    credentials: async () => ({ authorization: "Bearer gateway", clusterid: "g" }),
    ownAuthorization: async () => ({}),
    clock: () => new Date(),
    ended: () => undefined,
  });
  const document = ({ url, headers }: Request) =>
    fetch(`${ca}${new URL(url).pathname}`, { headers });
  const listener = await listenInPlaintext(
    { rpcs, fetch: document, log },
    { host: "127.0.0.1", port: 0 },
  );
  const url = `http://127.0.0.1:${listener.address.port}`;
  const client = connectHttp2(url);
  const end = async (): Promise<void> => {
    client.session.destroy();
    upstream.close();
    await listener.close(100);
  };
  return { url, client, end };
}

const start: StartTokens = async (values) => {
  const { ISSUERS, ...others }: Record<string, unknown> = { ...tokenValues, ...values };
  const tables = (ISSUERS as object[]).map((table) => ({ ...table, jwks: jwksOf(key) }));
  const given = Object.fromEntries(
    Object.entries(others).filter(([, value]) => value !== undefined),
  );
  const served = await serveCa({ ...given, ISSUERS: tables, PLAINTEXT_LISTEN: "127.0.0.1:0" });
  const { port } = served.server.plaintextAddress ?? { port: 0 };
  const gateway = await startGateway(`http://127.0.0.1:${port}`);
  return {
    send: (request) =>
      fetch(new Request(`${gateway.url}${new URL(request.url).pathname}`, request)),
    key,
    now: () => new Date(),
    takeAudits: () => served.log.audits.splice(0),
    end: async () => {
      await gateway.end();
      await served.end();
    },
  };
};

describeJwtSvids(start);
describeNoJwtSvids(start);

const ends: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const end of ends) await end();
});

async function exchange(answer: string, form = "subject_token=x", headers = {}) {
  const { url: ca, heard } = await startRawServer((socket) => void socket.write(answer));
  const gateway = await startGateway(ca);
  ends.push(gateway.end);
  const type = "application/x-www-form-urlencoded";
  const response = await fetch(`${gateway.url}/token`, {
    method: "POST",
    body: form,
    headers: { "content-type": type, ...headers },
  });
  return { response, heard };
}

const answerWith = (status: number, type: string, body: string): string =>
  `HTTP/1.1 ${status} x\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\nretry-after: 7\r\n\r\n${body}`;

test("a form goes on as it is, without a credential beside the token in it", async () => {
  const body = '{"access_token":"a.b.c"}';
  const headers = {
    authorization: "Bearer other",
    clusterid: "team",
    "x-rampart-peer": "192.0.2.1",
  };
  const answer = answerWith(200, "application/json", body);
  const { response, heard } = await exchange(answer, "subject_token=x", headers);
  expect([response.status, await response.text()]).toEqual([200, body]);
  expect(response.headers.get("cache-control")).toBe("no-store");
  expect(heard[0]).toMatch(/^POST \/token HTTP\/1.1\r\n/);
  expect(heard[0]).toMatch(/\r\n\r\nsubject_token=x$/);
  expect(heard[0]).toMatch(/\r\nx-rampart-peer: 127\.0\.0\.1\r\nclusterid: team\r\n/i);
  expect(heard[0]).not.toContain("authorization");
});

const away = [503, "temporarily_unavailable"] as const;

test.each([
  ["a refusal of the CA", 400, '{"error":"invalid_target"}', 400, "invalid_target"],
  ["a busy CA", 429, '{"error":"temporarily_unavailable"}', 429, "temporarily_unavailable"],
  ["a page of a proxy", 404, "<p>", ...away],
  ["another JSON", 200, '{"ok":true}', ...away],
  ["a redirect", 302, '{"error":"x"}', ...away],
])("%s is told in OAuth's words", async (_, status, body, told, error) => {
  const type = body.startsWith("<") ? "text/html" : "application/json";
  const { response } = await exchange(answerWith(status, type, body));
  expect([response.status, await response.json()]).toMatchObject([told, { error }]);
});

test("a form that is too long is the caller's mistake, and never reaches the CA", async () => {
  const { response, heard } = await exchange("", "x".repeat(70_000));
  expect(response.status).toBeGreaterThanOrEqual(400);
  expect(response.status).toBeLessThan(500);
  expect(heard).toEqual([]);
});

test("the bundle has the keys of the CA for tokens, and follows them without another root", async () => {
  const app = new Hono();
  const { publicJwk } = key;
  let jwtKeys = JwtSvidKeys.in([{ ...publicJwk, use: "jwt-svid" }]);
  const bundle = { pem: "", sequence: 7 };
  const published = { jwtKeys: () => jwtKeys, refreshSeconds: () => 60 };
  const trust = { published, roots: () => bundle, asked: Promise.resolve() };
  addTrustRoutes(app, {
    trust: () => trust as unknown as UpstreamTrust,
    peerOf: () => ({}),
    clock: () => new Date(),
    ending: new AbortController().signal,
  });
  const read = async (): Promise<unknown> => (await app.request("/bundle.json")).json();
  const { kty, crv, x, y, kid } = publicJwk;
  const expected = { kty, crv, x, y, kid, alg: "ES256", use: "jwt-svid" };
  expect(await read()).toMatchObject({ spiffe_sequence: 7, keys: [expected] });
  jwtKeys = [];
  expect(await read()).toMatchObject({ spiffe_sequence: 7, keys: [] });
});
