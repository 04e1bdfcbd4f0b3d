import { describe, expect, test } from "vitest";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import { startTlsServer } from "../../testkit/network/loopback-tls.ts";

describe("a request to an API server with a CA of its own", () => {
  test("has the given method, headers and body, and returns the answer", async () => {
    const { origin, ca } = await startTlsServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      const { method, url, headers } = request;
      response.writeHead(201).end(JSON.stringify([method, url, headers.authorization, body]));
    });
    const headers = { authorization: "Bearer x", "content-type": "application/json" };
    const init = { method: "POST", headers, body: '{"a":1}' };
    const response = await NodeFetch.trusting(ca)(`${origin}/apis?q=1`, init);
    expect(response.status).toBe(201);
    expect(await response.json()).toEqual(["POST", "/apis?q=1", "Bearer x", '{"a":1}']);
  });

  test.each([204, 205, 304, 404, 500, 599])("returns status %i", async (status) => {
    const { origin, ca } = await startTlsServer((_, response) => response.writeHead(status).end());
    expect((await NodeFetch.trusting(ca)(origin, {})).status).toBe(status);
  });

  test.each([600, 999])("rejects the invalid status %i", async (status) => {
    const { origin, ca } = await startTlsServer((_, response) => response.writeHead(status).end());
    await expect(NodeFetch.trusting(ca)(origin, {})).rejects.toThrow();
  });

  test("rejects a switched protocol", async () => {
    const { origin, ca } = await startTlsServer((_, { socket }) =>
      socket?.end("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
    );
    await expect(NodeFetch.trusting(ca)(origin, {})).rejects.toThrow("closed without an answer");
  });
});
