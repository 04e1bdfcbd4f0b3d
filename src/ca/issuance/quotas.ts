import type { Caller } from "../../authn/caller.ts";
import { CaError } from "../../foundation/errors.ts";
import type { QuotaName } from "../../foundation/refusal.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";

/**
 * Charges one certificate to the quota of a key.
 *
 * Each process or data centre counts by itself, and may forget. A quota limits abuse; it is no exact account.
 *
 * @returns 0, or, if the quota is used up, the seconds until it may have room again. Then nothing is charged.
 */
type Quota = (key: string, now: Date) => number | Promise<number>;

/** The quotas of a CA for one caller, and for all callers of one issuer. Each call charges one certificate. */
export type Quotas = Readonly<Record<QuotaName, Quota>>;

/**
 * Takes one certificate from the caller's quota, then one from the quota of the issuer that authenticated the caller,
 * or did so last. If the caller's quota is used up, the issuer's is not charged; if the issuer's is, the caller's stays
 * charged.
 *
 * A pod counts by itself, because a thousand replicas of one account may start at once. A node proxy asks
 * for hundreds of workloads, so each of them counts by itself.
 *
 * @param spiffeId The identity of the certificate: the caller's own, or the one that a node proxy asks for.
 * @throws CaError `quota-exceeded`
 */
export async function requireQuotas(
  quotas: Quotas,
  caller: Caller,
  spiffeId: SpiffeId,
  now: Date,
): Promise<void> {
  const issuer = (caller.issuer ?? caller.provedBy)?.name ?? "";
  const keys = { caller: [issuer, caller.spiffeId, caller.pod?.uid, spiffeId].join(" "), issuer };
  for (const quota of ["caller", "issuer"] as const) {
    const retryAfterSeconds = await quotas[quota](keys[quota], now);
    if (retryAfterSeconds <= 0) continue;
    const detail = `the ${quota} asks for too many certificates`;
    throw new CaError({ reason: "quota-exceeded", quota, retryAfterSeconds }, detail);
  }
}
