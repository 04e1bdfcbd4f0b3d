import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { kvStores } from "../../../src/worker/kv-store.ts";
import { describeWithdrawal } from "../../contract/withdrawal/withdrawal.ts";

describeWithdrawal(async () => {
  await reset();
  const { store, signerStore } = kvStores(env.AUTHORITIES);
  return { own: store, signer: signerStore("team-a") };
}, webCryptoProvider);
