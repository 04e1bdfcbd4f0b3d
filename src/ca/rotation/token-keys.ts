import { planTokenKeys, type StatedTokenKey } from "../../pki/jose/token-key.ts";
import { type Mint, mintTokenKey } from "../mint.ts";

/** Mints and prunes the keys for tokens. */
export async function carryOutKeyPlan(
  mint: Mint,
  keys: readonly StatedTokenKey[],
  now: Date,
): Promise<void> {
  const { tokenAlgorithm, phaseLengths } = mint;
  const plan = planTokenKeys(keys, tokenAlgorithm, phaseLengths.propagationSeconds, now);
  if (plan.mint && tokenAlgorithm) await mintTokenKey(mint, tokenAlgorithm, plan.mint);
  for (const id of plan.prune) await pruneTokenKey(mint, id);
}

async function pruneTokenKey(mint: Mint, id: string): Promise<void> {
  await mint.store.delete({ kind: "tokenKey", id });
  mint.log.operation({
    event: "token-key-pruned",
    level: "info",
    detail: "a key whose last token has ended was deleted from the store",
    key: id,
  });
}
