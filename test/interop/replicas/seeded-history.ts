import { foundIfEmpty } from "../../../src/ca/rotation/inception.ts";
import { rotate } from "../../../src/ca/rotation/rotate.ts";
import { mintsOf, openStores } from "../../../src/config/ca-stores.ts";
import type { AuthorityStore } from "../../../src/custody/authority-store.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import type { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { createMemoryStore } from "../../testkit/ca/memory-store.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";

/**
 * Fills a store with the records of a CA that was founded some time ago and has rotated since, so that a story
 * need not wait for the first certificate, and begins where its schedule is eventful.
 */
export async function seedHistory(
  { ca }: ServeConfiguration,
  store: AuthorityStore,
  founded: Date,
  now: Date,
): Promise<void> {
  const memory = createMemoryStore();
  const log = createEventRecorder();
  const platform = {
    ...{ store: memory, log, cryptoProvider: nodeCryptoProvider },
    clock: () => now,
  };
  const { mint } = mintsOf(await openStores(ca, platform), ca, platform);
  await foundIfEmpty(mint, founded);
  for (let at = founded; at < now; at = addSeconds(at, 2)) await rotate(mint, at);
  for (const record of await memory.load()) await store.put(record);
}
