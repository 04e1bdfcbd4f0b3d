import { webCryptoProvider } from "../../src/pki/web-crypto-provider.ts";
import { describeWithheldTaint } from "../contract/withdrawal/withheld-taint.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";

describeWithheldTaint(
  async () => ({ own: createMemoryStore(), signer: createMemoryStore() }),
  webCryptoProvider,
);
