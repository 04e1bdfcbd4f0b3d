import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll } from "vitest";
import { createReviewingApi } from "../../contract/reviewing-api.ts";
import { listenOnLoopback } from "../network/loopback.ts";

/** Serves the API servers of {@link createReviewingApi} while the tests of a file run. */
export function serveReviewingApi(): { readonly url: () => string } {
  const api = createReviewingApi();
  const server = createServer((request, response) => void answer(request, response));
  let listening = { host: "", close: async () => {} };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, body } = api.answer(request.url ?? "", await text(request));
    response.writeHead(status, { "content-type": "application/json" }).end(body);
  }

  beforeAll(async () => {
    listening = await listenOnLoopback(server);
  });
  afterAll(() => listening.close());
  return { url: () => `http://${listening.host}` };
}
