import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { describeWithdrawal } from "../contract/withdrawal/withdrawal.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";

describeWithdrawal(
  async () => ({ own: createMemoryStore(), signer: createMemoryStore() }),
  webCryptoProvider,
);
