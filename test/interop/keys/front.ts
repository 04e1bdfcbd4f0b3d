import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { request as requestByTls } from "node:https";
import { buffer } from "node:stream/consumers";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";

/** A server without TLS in front of a key service, through which a CA on this machine asks it. */
export interface Front {
  readonly host: string;
  /** Answers a request in the service's place, such as a login. */
  answer: ((path: string, body: Buffer) => Promise<[status: number, body: object]>) | undefined;
  readonly close: () => Promise<void>;
}

export async function startFront(target: string, ca?: string): Promise<Front> {
  const server = createServer((asked, response) => {
    forward(asked, response).catch(() => response.destroy());
  });
  const listening = await listenOnLoopback(server);
  const front: Front = {
    ...listening,
    answer: undefined,
  };

  async function forward(asked: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(asked);
    const { url = "/" } = asked;
    if (front.answer && url.startsWith("/v1/auth/")) {
      const [status, said] = await front.answer(url, body);
      return void response.writeHead(status).end(JSON.stringify(said));
    }
    const { method, headers } = asked;
    const open = target.startsWith("https:") ? requestByTls : request;
    const options = { method, headers, ...(ca !== undefined && { ca }) };
    const sent = open(new URL(url, target), options, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    sent.once("error", () => response.destroy());
    sent.end(body);
  }
  return front;
}
