import { sealStatement } from "../../custody/statement.ts";
import type { Taint } from "../../pki/authority/taint.ts";
import { type Mint, storeRecord } from "../mint.ts";

/**
 * Records a taint. Callers rotate right after it: the rotation mints a successor if no other authority
 * may sign.
 */
export async function recordTaint(mint: Mint, taint: Taint): Promise<void> {
  await storeRecord(mint, await sealStatement("taint", taint, mint.trustDomain, mint.keks));
  mint.log.operation({
    event: "authority-tainted",
    level: "warning",
    detail: "the authority signs nothing any more; its root leaves the trust bundle",
    authority: taint.id,
    taintedAt: taint.taintedAt.toISOString(),
    retiresAt: taint.retiresAt.toISOString(),
  });
}
