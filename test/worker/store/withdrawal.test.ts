import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { webCryptoProvider } from "../../../src/pki/web-crypto-provider.ts";
import { createKvStore, signerStoreIn } from "../../../src/worker/kv-store.ts";
import { describeWithdrawal } from "../../contract/withdrawal/withdrawal.ts";

describeWithdrawal(async () => {
  await reset();
  return { own: createKvStore(env.AUTHORITIES), signer: signerStoreIn(env.AUTHORITIES)("team-a") };
}, webCryptoProvider);
