import { expect } from "vitest";

/** The keys that code can reach from a value, by properties, lists, maps and sets. */
interface ReachableKeys {
  readonly cryptoKeys: readonly CryptoKey[];
  /** Every object with a method `export`, such as Node's `KeyObject`. */
  readonly exportable: readonly object[];
}

function reachableKeys(root: unknown): ReachableKeys {
  const cryptoKeys: CryptoKey[] = [];
  const exportable: object[] = [];
  const seen = new Set<unknown>();
  const visit = (value: unknown): void => {
    const isObject = (typeof value === "object" && value !== null) || typeof value === "function";
    if (!isObject || seen.has(value) || ArrayBuffer.isView(value)) return;
    seen.add(value);
    if (value instanceof CryptoKey) {
      cryptoKeys.push(value);
      return;
    }
    if ("export" in value && typeof value.export === "function") exportable.push(value);
    if (value instanceof Map || value instanceof Set) for (const entry of value) visit(entry);
    for (const name of Reflect.ownKeys(value)) {
      const descriptor = Reflect.getOwnPropertyDescriptor(value, name);
      visit(descriptor?.value);
      visit(descriptor?.get);
    }
  };
  visit(root);
  return { cryptoKeys, exportable };
}

const formats = ["pkcs8", "spki", "raw", "jwk"] as const;

/** Expects that nothing within reach can be exported, in any format, and gives the CryptoKeys. */
export async function expectNothingExportable(root: unknown): Promise<readonly CryptoKey[]> {
  const { cryptoKeys, exportable } = reachableKeys(root);
  expect(exportable).toEqual([]);
  for (const key of cryptoKeys) {
    expect(key.extractable).toBe(false);
    for (const format of formats) {
      await expect(crypto.subtle.exportKey(format, key)).rejects.toThrow();
    }
  }
  return cryptoKeys;
}
