import { sealKeyed } from "../custody/keyed-statement.ts";
import type { Schedule } from "../pki/authority/schedule.ts";
import {
  generateTokenKey,
  planTokenKeys,
  type StatedTokenKey,
  type TokenAlgorithm,
} from "../pki/jose/token-key.ts";
import { type Mint, storeRecord } from "./mint.ts";

/** Makes a key for tokens, stores it sealed, and drops its open key. */
export async function mintTokenKey(
  mint: Mint,
  algorithm: TokenAlgorithm,
  schedule: Schedule,
): Promise<void> {
  const { key, extractablePrivateKey } = await generateTokenKey(algorithm, schedule);
  await storeRecord(mint, await sealKeyed("tokenKey", key, extractablePrivateKey, mint));
  mint.log.operation({
    event: "token-key-minted",
    level: "info",
    detail: "a new key for JWT-SVIDs is in the store",
    key: key.id,
    publishedFrom: schedule.publishedFrom.toISOString(),
    signsFrom: schedule.signsFrom.toISOString(),
    signsUntil: schedule.signsUntil.toISOString(),
  });
}

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
