import { inspect, isDeepStrictEqual } from "node:util";
import { nodeCryptoProvider } from "../../src/node/node-crypto-provider.ts";
import type { CryptoProvider } from "../../src/pki/crypto-provider.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";

/** Every provider, by name. */
export const cryptoProviders: readonly (readonly [string, CryptoProvider])[] = [
  ["WebCrypto", webCryptoProvider],
  ["node:crypto", nodeCryptoProvider],
];

/**
 * Asks WebCrypto and node:crypto. Gives the answer of both, or throws the error of both.
 *
 * @param summary The part of an answer that must be the same.
 */
export async function alike<Answer>(
  ask: (cryptoProvider: CryptoProvider) => Promise<Answer>,
  summary: (answer: Answer) => unknown = (answer) => answer,
): Promise<Answer> {
  const [web, node] = await Promise.allSettled([ask(webCryptoProvider), ask(nodeCryptoProvider)]);
  const [one, other] = [web, node].map((outcome) =>
    outcome.status === "fulfilled" ? summary(outcome.value) : String(outcome.reason),
  );
  if (!isDeepStrictEqual(one, other)) {
    throw new Error(`WebCrypto gives ${inspect(one)}, node:crypto ${inspect(other)}`);
  }
  if (web.status === "rejected") throw web.reason;
  return web.value;
}
