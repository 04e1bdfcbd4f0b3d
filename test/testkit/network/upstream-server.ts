import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type SigningDepartures, signIntermediate } from "../pki/company-ca.ts";
import type { TestCa } from "../pki/plugged-in.ts";

/** A request that a CA upstream got. */
interface AskedUpstream {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: { readonly csr?: unknown; readonly ttl?: unknown };
}

/** A CA upstream's answer to a request: JSON for an answer with 200, or the response itself. */
type UpstreamBehaviour = (asked: AskedUpstream, response: ServerResponse) => unknown;

/** A CA upstream on loopback, whose behaviour a test may replace. It ends with the test. */
export interface UpstreamServer {
  readonly url: string;
  readonly asked: AskedUpstream[];
  behaviour: UpstreamBehaviour;
}

export async function startUpstream(behaviour: UpstreamBehaviour): Promise<UpstreamServer> {
  const asked: AskedUpstream[] = [];
  const http = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const one = { path: request.url ?? "", headers: request.headers, body: JSON.parse(text) };
    asked.push(one);
    const answer = await server.behaviour(one, response);
    if (answer === undefined) return;
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    http.closeAllConnections();
    http.close();
  });
  const { port } = http.address() as AddressInfo;
  const server: UpstreamServer = { url: `http://127.0.0.1:${port}`, asked, behaviour };
  return server;
}

/** Vault as its documentation describes `sign-intermediate`. */
export const vault =
  (issuer: TestCa, now: () => Date, departures: Partial<SigningDepartures> = {}) =>
  async ({ body: { ttl, csr } }: AskedUpstream) => {
    const seconds = Number(String(ttl).replace("s", ""));
    const notAfter = departures.notAfter ?? addSeconds(now(), seconds);
    const certificate = await signIntermediate(issuer, String(csr), { ...departures, notAfter });
    return { data: { certificate, issuing_ca: issuer.pem, ca_chain: [certificate, issuer.pem] } };
  };

/** An answer that is this text, as JSON or not. */
export const text =
  (status: number, body: string): UpstreamBehaviour =>
  (_, response) =>
    void response.writeHead(status, { "content-type": "application/json" }).end(body);
