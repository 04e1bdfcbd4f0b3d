import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll } from "vitest";
import { createReviewingApi } from "../../contract/reviewing-api.ts";
import {
  apiCredentialName,
  issuerTables,
  reviewedTables,
} from "../../contract/service-under-test.ts";
import { jwksOf, type TokenKey } from "../callers/tokens.ts";
import { listenOnLoopback } from "../network/loopback.ts";

const silent: readonly string[] = ["/hanging", "/stalled"];

/** Serves the API servers of {@link createReviewingApi}, and keys that nobody gets, while the tests of a file run. */
export function serveReviewingApi() {
  const api = createReviewingApi();
  const server = createServer((request, response) => void answer(request, response));
  let listening = { host: "", close: async () => {} };
  const url = () => `http://${listening.host}`;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url: path = "" } = request;
    if (silent.includes(path)) return;
    if (path === "/down") return void response.writeHead(503).end();
    const { status, body } = api.answer(path, await text(request));
    response.writeHead(status, { "content-type": "application/json" }).end(body);
  }

  beforeAll(async () => {
    listening = await listenOnLoopback(server);
  });
  afterAll(() => listening.close());
  return {
    url,
    questions: api.questions,
    /** The configuration of a service with every issuer of the contract. */
    values: (key: TokenKey) => ({
      ISSUERS: [
        { ...issuerTables.cluster, jwks: jwksOf(key) },
        { ...issuerTables.team, jwks: JSON.stringify(jwksOf(key)) },
        { ...issuerTables.hanging, jwks_uri: `${url()}/hanging` },
        { ...issuerTables.stalled, jwks_uri: `${url()}/stalled` },
        { ...issuerTables.down, jwks_uri: `${url()}/down` },
        ...reviewedTables(url()).map((table) => ({ ...table, jwks: jwksOf(key) })),
      ],
      [apiCredentialName]: "credential",
    }),
  };
}
