import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { webCryptoProvider } from "../../../src/pki/web-crypto-provider.ts";
import { createKvStore, signerStoreIn } from "../../../src/worker/kv-store.ts";
import { describeWithheldTaint } from "../../contract/withdrawal/withheld-taint.ts";

describeWithheldTaint(async () => {
  await reset();
  return { own: createKvStore(env.AUTHORITIES), signer: signerStoreIn(env.AUTHORITIES)("team-a") };
}, webCryptoProvider);
