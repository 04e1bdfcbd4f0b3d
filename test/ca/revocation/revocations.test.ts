import { webCryptoProvider } from "../../../src/pki/web-crypto-provider.ts";
import { describeRevocations } from "../../contract/withdrawal/revocations.ts";
import { createMemoryStore } from "../../testkit/ca/memory-store.ts";

describeRevocations(
  async () => ({ own: createMemoryStore(), signer: createMemoryStore() }),
  webCryptoProvider,
);
