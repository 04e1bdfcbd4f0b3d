import { webCryptoProvider } from "../../src/pki/web-crypto-provider.ts";
import { describeDenials } from "../contract/withdrawal/denials.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";

describeDenials(
  async () => ({ own: createMemoryStore(), signer: createMemoryStore() }),
  webCryptoProvider,
);
