import type { Caller } from "../../authn/caller.ts";
import { CaError, type QuotaName } from "../../foundation/errors.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";

/**
 * Takes one certificate from what a key may still have; `false` when nothing is left.
 *
 * Each process or data centre counts by itself, and may forget. A quota limits abuse; it is no exact account.
 */
export type Quota = (key: string, now: Date) => boolean | Promise<boolean>;

/** The quotas of a CA: how often one caller, and all callers of one issuer, may ask for a certificate. */
export type Quotas = Readonly<Record<QuotaName, Quota>>;

/**
 * Takes one certificate from the quota of the caller, then from that of its issuer: a caller without a
 * quota takes nothing from the others.
 *
 * A pod counts by itself, because a thousand replicas of one account may start at once. A node proxy asks
 * for hundreds of workloads, so each of them counts by itself.
 *
 * @param spiffeId Of the certificate: the caller's own, or the one that a node proxy asks for.
 * @throws CaError `quota-exceeded`
 */
export async function requireQuotas(
  quotas: Quotas,
  caller: Caller,
  spiffeId: SpiffeId,
  now: Date,
): Promise<void> {
  const issuer = caller.issuer?.name ?? "";
  const callerKey = [issuer, caller.spiffeId, caller.pod?.uid, spiffeId].join(" ");
  if (!(await quotas.caller(callerKey, now))) throw exceeded("caller");
  if (!(await quotas.issuer(issuer, now))) throw exceeded("issuer");
}

function exceeded(quota: QuotaName): CaError {
  return new CaError(
    { reason: "quota-exceeded", quota },
    `the ${quota} asks for too many certificates`,
  );
}
