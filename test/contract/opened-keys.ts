import { describe, expect, test } from "vitest";
import { Rotation } from "../../src/ca/rotation/rotate.ts";
import { Composition } from "../../src/config/composition.ts";
import { Configuration } from "../../src/config/configuration.ts";
import type { AuthorityKey } from "../../src/pki/authority/new-authority.ts";
import type { CryptoProvider } from "../../src/pki/crypto-provider.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { noFetching } from "../testkit/network/no-fetching.ts";
import { expectNothingExportable } from "../testkit/reachable-keys.ts";

const now = new Date("2026-11-21T12:00:00Z");
const inceptionDate = "2026-11-21";
const signer = {
  name: "team-a",
  inception_date: inceptionDate,
  callers: [{ issuer: "https://a.test" }],
};

async function composeSigning(
  key: AuthorityKey,
  cryptoProvider: CryptoProvider,
): Promise<Composition> {
  const kek = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))));
  const configuration = Configuration.parse({
    ISSUERS: [{ issuer: "https://a.test" }],
    KEK: `k1:${kek}`,
    AUTHORITY_KEY: key,
    JWT_ISSUER: "https://id.test",
    INCEPTION_DATE: inceptionDate,
    PROPAGATION_INTERVAL: "0s",
    SIGNERS: [signer],
  });
  const stores = { store: createMemoryStore(), signerStore: () => signerStore };
  const signerStore = createMemoryStore();
  const log = createEventRecorder();
  const composition = await Composition.compose(configuration, {
    ...stores,
    fetching: noFetching,
    cryptoProvider,
    log,
    clock: () => now,
  });
  for (const mint of [composition.mint, ...composition.signerMints.values()]) {
    await Rotation.rotate(mint, now);
  }
  return composition;
}

/**
 * Requires that a CA holds no key that can be exported, once it has opened its authorities and its key for tokens.
 *
 * @param ofAuthority The number of private CryptoKeys within reach of an open authority: none where the
 *   provider keeps the key in a closure.
 */
export function describeOpenedKeys(cryptoProvider: CryptoProvider, ofAuthority: 0 | 1): void {
  describe.each<AuthorityKey>(["EC-P256", "EC-P384", "RSA-2048"])("a CA of %s", (key) => {
    test("holds no key that can be exported, once its authorities are open", async () => {
      const composition = await composeSigning(key, cryptoProvider);
      const { authorities, signers } = composition.certificateAuthority.issuance;
      const view = await authorities.at(now);
      expect(view.issuer?.authority.publicKey.algorithm).toBe(key.replace("-2048", ""));
      const named = await signers.get("team-a")?.authorities.at(now);
      const reached = await expectNothingExportable({ composition, view, named });
      // Two KEKs and their statement keys show that the walk reaches what there is.
      expect(reached.filter(({ type }) => type === "secret")).toHaveLength(4);
      for (const [opened, privateKeys] of [
        [view.issuer, ofAuthority],
        [view.store.tokenKeys[0], 1],
      ] as const) {
        expect(opened).toBeDefined();
        const within = await expectNothingExportable(opened);
        expect(within.map(({ type, usages }) => [type, ...usages])).toEqual(
          Array.from({ length: privateKeys }, () => ["private", "sign"]),
        );
      }
    });
  });
}
