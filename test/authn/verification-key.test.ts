import { generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { parseKeySet, type VerificationKey, verificationKeys } from "../../src/authn/key-set.ts";
import { cryptoProviders } from "../testkit/crypto-providers.ts";
import { expectNothingExportable } from "../testkit/reachable-keys.ts";

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });

describe.each(cryptoProviders)("a key of an issuer, opened by %s", (_, cryptoProvider) => {
  /** A key whose issuer publishes the private members as well. */
  function publishedKey(): VerificationKey {
    const keySet = parseKeySet({ keys: [privateKey.export({ format: "jwk" })] });
    const [key] = verificationKeys(keySet ?? [], cryptoProvider);
    if (!key) throw new Error("no key");
    return key;
  }

  test("is opened once for each algorithm", async () => {
    const key = publishedKey();
    const opened = await key.open("RS256");
    expect(await key.open("RS256")).toBe(opened);
    expect(await key.open("PS256")).not.toBe(opened);
    expect([...key.opened.keys()]).toEqual(["RS256", "PS256"]);
  });

  test("is opened as a public key that nothing can export", async () => {
    const key = publishedKey();
    await key.open("RS256");
    for (const { type, usages } of await expectNothingExportable(key)) {
      expect([type, ...usages]).toEqual(["public", "verify"]);
    }
  });

  test("is not opened when it is of another scheme", async () => {
    const key = publishedKey();
    await expect(key.open("ES256")).rejects.toThrow();
    await expect(key.open("EdDSA")).rejects.toThrow();
    expect(key.opened.size).toBe(0);
  });
});
