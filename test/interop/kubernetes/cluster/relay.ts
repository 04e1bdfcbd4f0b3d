import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { NodeFetch } from "../../../../src/program/http/http-client.ts";
import type { ControlPlane } from "./control-plane.ts";

/** Forwards to the API server without TLS, because a local Worker cannot trust its CA. */
export async function relayTo<T>(
  { server, ca }: ControlPlane,
  work: (origin: string) => Promise<T>,
): Promise<T> {
  const fetch = NodeFetch.trusting(ca);
  const relay = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = "GET", url, headers } = request;
    const { authorization = "", accept = "", "content-type": type } = headers;
    const answer = await fetch(`${server}${url}`, {
      method,
      headers: { authorization, accept, ...(type && { "content-type": type }) },
      ...(chunks.length > 0 && { body: Buffer.concat(chunks).toString("utf8") }),
    });
    response.writeHead(answer.status).end(await answer.text());
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  try {
    return await work(`http://127.0.0.1:${(relay.address() as AddressInfo).port}`);
  } finally {
    relay.close();
    relay.closeAllConnections();
  }
}
