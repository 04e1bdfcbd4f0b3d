import { once } from "node:events";
import { connect as connectHttp2, createSecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { JsonFetch } from "../../../src/foundation/fetch.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import { EnvironmentProxies } from "../../../src/program/http/proxies.ts";
import { connectSession } from "../../../src/program/http/tunnel.ts";
import { proxyPassword, startConnectProxy } from "../../testkit/network/connect-proxy.ts";
import { startTlsServer } from "../../testkit/network/loopback-tls.ts";
import { startRawServer } from "../../testkit/network/raw-server.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";

const portOf = (origin: string): number => Number(new URL(origin).port);

function follow(environment: Readonly<Record<string, string>>): void {
  EnvironmentProxies.prepare(environment);
  onTestFinished(() => EnvironmentProxies.prepare({}));
}

/** A server that only the proxy can reach: its certificate is for 127.0.0.1, so the test expects that name. */
async function startHidden() {
  const { origin, ca } = await startTlsServer((request, response) => {
    response.end(JSON.stringify({ host: request.headers.host }));
  });
  const proxy = await startConnectProxy({ "ca.example": portOf(origin) });
  return { proxy, tls: { ca, checkServerIdentity: () => undefined } };
}

test("requests over TLS go through the proxy, and one connection serves several", async () => {
  const { proxy, tls } = await startHidden();
  follow({ https_proxy: proxy.url });
  const fetch = NodeFetch.with(tls);
  for (let i = 0; i < 2; i++) {
    const answer = await fetch("https://ca.example/jwks", { method: "POST", body: "x" });
    expect(await answer.json()).toEqual({ host: "ca.example" });
  }
  expect(proxy.asked).toEqual(["ca.example:443"]);
});

test("a server of NO_PROXY is reached directly", async () => {
  const { proxy, tls } = await startHidden();
  follow({ HTTPS_PROXY: proxy.url, NO_PROXY: ".example" });
  await expect(NodeFetch.with(tls)("https://ca.example/", {})).rejects.toThrow(
    /\((ENOTFOUND|EAI_AGAIN)\)/,
  );
  expect(proxy.asked).toEqual([]);
});

test("a request in plaintext names its whole URL to the proxy, and keeps its host", async () => {
  const { proxy } = await startHidden();
  follow({ HTTP_PROXY: proxy.url });
  const answer = await NodeFetch.trusting(undefined)("http://minio.example:9000/a?b", {});
  expect(await answer.text()).toBe(
    "forwarded GET http://minio.example:9000/a?b for minio.example:9000",
  );
});

test("an HTTP/2 session goes through the proxy, each time that it opens", async () => {
  const { key, ca: cert } = await createTlsIdentity();
  const server = createSecureServer({ key, cert });
  server.on("stream", (stream) => stream.respond({ ":status": 204 }, { endStream: true }));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const proxy = await startConnectProxy({ "10.9.8.7": port });
  follow({ HTTPS_PROXY: proxy.url });
  const tls = { ca: cert, checkServerIdentity: () => undefined };
  for (let i = 0; i < 2; i++) {
    const socket = await connectSession("https://10.9.8.7:15012", tls);
    const createConnection = () => socket;
    const session = connectHttp2("https://10.9.8.7:15012", { createConnection });
    const [headers] = await once(session.request({ ":path": "/" }).resume(), "response");
    expect(headers[":status"]).toBe(204);
    session.destroy();
  }
  expect(proxy.asked).toEqual(["10.9.8.7:15012", "10.9.8.7:15012"]);
});

test("what a server says at once behind the tunnel is there for its session", async () => {
  const { url } = await startRawServer((socket) =>
    socket.write("HTTP/1.1 200 Connection established\r\n\r\nfirst frame"),
  );
  follow({ HTTPS_PROXY: url });
  const socket = await connectSession("http://10.9.8.7:15010", {});
  onTestFinished(() => void socket.destroy());
  const [chunk] = await once(socket, "data");
  expect(String(chunk)).toBe("first frame");
});

test("plaintext is not sent to a proxy over TLS, which would show its owner what TLS hides", async () => {
  follow({ HTTP_PROXY: "https://127.0.0.1:9" });
  await expect(NodeFetch.trusting(undefined)("http://minio.example:9000/", {})).rejects.toThrow(
    "is asked in plaintext, which no proxy over TLS is asked for",
  );
});

test.each<[string, (url: string) => string, string]>([
  ["wants another password", (url) => url.replace("rampart:", "mallory:"), "PROXY_STATUS_407"],
  ["knows no such server", (url) => url, "PROXY_STATUS_502"],
  ["is not there", () => "http://127.0.0.1:1", "PROXY_ECONNREFUSED"],
])("a proxy that %s is named by a code", async (_what, change, code) => {
  const { url } = await startConnectProxy({});
  follow({ HTTPS_PROXY: change(url) });
  const failing = JsonFetch.create(NodeFetch.trusting(undefined))("https://ca.example/");
  await expect(failing).rejects.toThrow(`did not answer (${code})`);
  await expect(failing).rejects.not.toThrow(proxyPassword);
  await expect(connectSession("https://ca.example", {})).rejects.toMatchObject({ code });
});

test.each([
  ["answers CONNECT as if it were a page", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"],
  ["answers no HTTP", "SSH-2.0-OpenSSH_9.9\r\n"],
])("a proxy that %s leaves no request open", async (_what, answer) => {
  const { url } = await startRawServer((socket) => socket.end(answer));
  follow({ HTTPS_PROXY: url });
  await expect(NodeFetch.trusting(undefined)("https://ca.example/", {})).rejects.toThrow(
    /did not answer/,
  );
});

test("a stranger's URL leads through the proxy to no private name and no private address", async () => {
  const proxy = await startConnectProxy({});
  follow({ HTTPS_PROXY: proxy.url, HTTP_PROXY: proxy.url });
  const fetch = NodeFetch.trusting(undefined, "public");
  for (const host of ["10.1.2.3", "[fd00::1]", "vault.internal", "api.default.svc", "intranet"]) {
    for (const scheme of ["http", "https"])
      await expect(fetch(`${scheme}://${host}/`, {})).rejects.toThrow("(PRIVATE_ADDRESS)");
  }
  expect(proxy.asked).toEqual([]);
});
