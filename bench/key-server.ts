import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A server of a JWK Set that counts how often it was asked. */
export interface KeyServer {
  readonly url: string;
  readonly fetches: () => number;
  readonly close: () => void;
}

/** Serves a JWK Set on a free port of this machine. */
export async function startKeyServer(keySet: object): Promise<KeyServer> {
  let fetches = 0;
  const server = createServer((_, response) => {
    fetches++;
    response.setHeader("content-type", "application/json").end(JSON.stringify(keySet));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/jwks`,
    fetches: () => fetches,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
