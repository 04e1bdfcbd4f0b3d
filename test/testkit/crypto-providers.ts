import { inspect, isDeepStrictEqual } from "node:util";
import { nodeCryptoProvider } from "../../src/node/node-crypto-provider.ts";
import type { CryptoProvider } from "../../src/pki/crypto-provider.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto-provider.ts";

/** What every test of an operation that a provider performs runs with. */
export const cryptoProviders: readonly (readonly [string, CryptoProvider])[] = [
  ["WebCrypto", webCryptoProvider],
  ["node:crypto", nodeCryptoProvider],
];

/**
 * What WebCrypto and node:crypto both answer. Throws what they both throw.
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
