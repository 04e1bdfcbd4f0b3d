import type { ServerResponse } from "node:http";
import { afterAll, expect, test } from "vitest";
import { ClientError, createClient, type Fetch, tokenFrom } from "../../src/client/client.ts";
import { startLoopbackServer } from "../testkit/network/loopback-server.ts";
import { passToNow, startControlledCas } from "./controlled-ca.ts";

const { found, close } = await startControlledCas();
afterAll(close);

const audience = "https://ca.example.com";
const secret = "eyJ.secret.sig";
const pass = "pass-of-the-job";

/** A played endpoint, which the machine's link-local address leads to. */
async function play(answer: (response: ServerResponse) => void) {
  const asked: object[] = [];
  const { origin } = await startLoopbackServer(({ method, url, headers }, response) => {
    const { "metadata-flavor": google, metadata: azure, authorization } = headers;
    asked.push({ method, url, google, azure, authorization });
    answer(response);
  });
  const fetch: Fetch = (url, init) => {
    expect(init.signal).toBeInstanceOf(AbortSignal);
    return globalThis.fetch(url.replace("http://169.254.169.254", origin), init);
  };
  return { origin, fetch, asked };
}

test("asks Google's metadata server anew for each token", async () => {
  const { fetch, asked } = await play((response) => response.end(`${secret}\n`));
  const token = tokenFrom.gce(audience, fetch);
  expect(asked).toEqual([]);
  expect([await token(), await token()]).toEqual([secret, secret]);
  const path = "/computeMetadata/v1/instance/service-accounts/default/identity";
  const url = `${path}?audience=https%3A%2F%2Fca.example.com&format=full`;
  const request = { method: "GET", url, google: "Google", azure: undefined };
  expect(asked).toMatchObject([request, request]);
});

test("asks for Azure's managed identity", async () => {
  const { fetch, asked } = await play((response) =>
    response.end(`{"access_token":"${secret}","expires_in":"86399"}`),
  );
  expect(await tokenFrom.azure("api://rampart", fetch)()).toBe(secret);
  const path = "/metadata/identity/oauth2/token";
  const url = `${path}?api-version=2018-02-01&resource=api%3A%2F%2Frampart`;
  expect(asked).toMatchObject([{ method: "GET", url, azure: "true" }]);
});

test("asks GitHub by the platform's fetch, with the job's URL and token", async () => {
  const { origin, asked } = await play((response) => response.end(`{"value":"${secret}"}`));
  const url = `${origin}/job?api-version=2.0`;
  expect(await tokenFrom.github(audience, { url, token: pass })()).toBe(secret);
  const request = "/job?api-version=2.0&audience=https%3A%2F%2Fca.example.com";
  expect(asked).toMatchObject([{ method: "GET", url: request, authorization: `Bearer ${pass}` }]);
});

test("a client gets a certificate with such a token", async () => {
  const { url, ca, mint } = await found();
  await passToNow(ca);
  const { fetch } = await play(async (response) => response.end(await mint()));
  const token = tokenFrom.gce(audience, fetch);
  const client = createClient({ url, trustDomain: "cluster.local", token });
  expect((await client.issue()).spiffeId).toBe("spiffe://cluster.local/ns/foo/sa/bar");
});

// What else is refused of an endpoint, the agent's tests say.
test("refuses a redirect, in words without a secret", async () => {
  const { origin, asked } = await play((response) =>
    response.writeHead(302, { location: "/secret" }).end("secret"),
  );
  const token = tokenFrom.github(audience, { url: `${origin}/job`, token: pass });
  const error: unknown = await token().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ClientError);
  const message = expect.stringContaining("answered with status 302");
  expect(error).toMatchObject({ fault: "unavailable", message });
  const shown = JSON.stringify(error, Object.getOwnPropertyNames(error)) + String(error);
  expect(shown).not.toMatch(/secret|pass-of-the-job/);
  expect(asked).toHaveLength(1);
});

test.each([{ url: undefined }, { token: undefined }, { token: `${pass}\r\nx: y` }])(
  "refuses a job's %o without quoting its secret",
  (changes) => {
    const job = { url: "https://run.example.com/token", token: pass, ...changes };
    const create = () => tokenFrom.github(audience, job);
    expect(create).toThrow(TypeError);
    expect(create).not.toThrow(pass);
  },
);
