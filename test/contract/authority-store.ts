import { describe, test } from "vitest";
import type { AuthorityStore } from "../../src/custody/authority-store.ts";
import { storePromises } from "./store-promises.ts";

/**
 * The promises of the port `AuthorityStore` that a single reader can observe.
 *
 * @param create Makes an empty store.
 */
export function describeAuthorityStore(create: () => Promise<AuthorityStore>): void {
  describe("an authority store", () => {
    test.each(Object.entries(storePromises))("%s", async (_, promise) => promise(await create()));
  });
}
