import { createServer, type ServerResponse } from "node:http";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../testkit/callers/tokens.ts";
import { listenOnLoopback } from "../testkit/network/loopback.ts";

/** How an issuer answers a request for its keys. */
export type Mood = "answers" | "fails" | "hangs" | "babbles";

/** An issuer of tokens whose key server can fail. */
export interface SoakIssuer {
  readonly name: string;
  readonly keysUrl: string;
  mood: Mood;
  /** @param account `namespace:name`. */
  readonly mint: (account: string) => Promise<string>;
  /** A token that the issuer did not sign, with a key id that nobody knows. */
  readonly forge: (account: string) => Promise<string>;
}

export interface IssuerServer {
  readonly issuers: readonly SoakIssuer[];
  readonly close: () => Promise<void>;
}

/** Starts issuers on one port, each with a path of its own. */
export async function startIssuers(count: number): Promise<IssuerServer> {
  const issuers: SoakIssuer[] = [];
  const keys = await Promise.all(
    Array.from({ length: count }, (_, i) => createTokenKey("ES256", `key-${i}`)),
  );
  const server = createServer(({ url }, response) => {
    const i = Number(url?.slice(1));
    const [issuer, key] = [issuers[i], keys[i]];
    if (issuer && key) answer(issuer.mood, key, response);
  });
  const { host, close } = await listenOnLoopback(server);
  const stranger = await createTokenKey("ES256");
  for (const [i, key] of keys.entries()) {
    const name = `https://issuer-${i}.test`;
    issuers.push({
      name,
      keysUrl: `http://${host}/${i}`,
      mood: "answers",
      mint: (account) => mintAccountToken(key, name, account, new Date()),
      forge: (account) => {
        const publicJwk = { ...stranger.publicJwk, kid: crypto.randomUUID() };
        return mintAccountToken({ ...stranger, publicJwk }, name, account, new Date());
      },
    });
  }
  return { issuers, close };
}

function answer(mood: Mood, key: TokenKey, response: ServerResponse): void {
  if (mood === "hangs") return;
  const body = mood === "babbles" ? "<html>".repeat(1000) : JSON.stringify(jwksOf(key));
  response
    .writeHead(mood === "fails" ? 503 : 200, { "content-type": "application/json" })
    .end(body);
}
