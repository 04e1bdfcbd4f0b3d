import type { IssuedCertificates } from "../../../src/ca/issuance/idempotency.ts";
import { Bytes } from "../../../src/pki/encoding/bytes.ts";

/** Issued certificates in memory, which a test may change. */
export function issuedInMemory(
  stored: Map<string, Bytes> = new Map(),
): IssuedCertificates & { readonly stored: Map<string, Bytes> } {
  return {
    stored,
    read: async (name) => stored.get(name),
    create: async (name, der, stale) => {
      const found = stored.get(name);
      if (!found || (stale && Bytes.equal(found, stale))) stored.set(name, der);
      return stored.get(name);
    },
  };
}
