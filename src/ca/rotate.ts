import type { StoredRecord } from "../custody/authority-store.ts";
import { openAuthority, resealAuthority } from "../custody/seal.ts";
import type { Issuer } from "../pki/issuer.ts";
import { planRotation, type RotationStep } from "../pki/rotation.ts";
import { foundIfEmpty } from "./inception.ts";
import { type Mint, mintAuthority } from "./mint.ts";

/**
 * Looks at every record and does what is due: found, mint, prune, seal anew under the newest KEK.
 *
 * Runs may be missed, late, doubled or see an old list: nothing is read, changed and written back,
 * so the worst they do together is one authority too many. What fails does not keep the rest from
 * happening.
 *
 * @throws AggregateError with every fault, after all that could be done was done; the platform then
 *   shows a failed run.
 */
export async function rotate(mint: Mint, now: Date): Promise<void> {
  const stored = await mint.store.load();
  if (stored.length === 0) return foundIfEmpty(mint, now);
  const opened = await Promise.allSettled(
    stored.map((record) => openAuthority(record, mint.trustDomain, mint.keks)),
  );
  const issuers = fulfilled(opened);
  const done = issuers.length > 0 ? await carryOut(mint, issuers, stored, now) : [];
  const faults = [...opened, ...done].flatMap(reasonOf);
  if (faults.length === 0) return;
  for (const fault of faults) logFault(mint, fault);
  throw new AggregateError(faults, `the rotation met ${faults.length} faults`);
}

async function carryOut(
  mint: Mint,
  issuers: readonly Issuer[],
  stored: readonly StoredRecord[],
  now: Date,
): Promise<readonly PromiseSettledResult<void>[]> {
  const authorities = issuers.map(({ authority }) => authority);
  const steps = planRotation(authorities, mint.phaseLengths, now);
  const pruned = new Set(steps.map((step) => (step.act === "prune" ? step.id : undefined)));
  const kept = stored.filter(({ id }) => !pruned.has(id) && authorities.some((a) => a.id === id));
  return Promise.allSettled([
    ...steps.map((step) => carryOutStep(mint, step)),
    ...kept.map((record) => reseal(mint, record)),
  ]);
}

async function carryOutStep(mint: Mint, step: RotationStep): Promise<void> {
  if (step.act === "mint") {
    if (step.isOverdue) logOverdue(mint, step.schedule.signsFrom);
    return mintAuthority(mint, step.schedule);
  }
  await mint.store.delete(step.id);
  mint.log.operation({
    event: "authority-pruned",
    level: "info",
    detail: "a retired authority that nothing needs any more has left the store",
    authority: step.id,
  });
}

async function reseal(mint: Mint, record: StoredRecord): Promise<void> {
  const resealed = await resealAuthority(record, mint.trustDomain, mint.keks);
  if (!resealed) return;
  await mint.store.put(resealed);
  mint.log.operation({
    event: "authority-resealed",
    level: "info",
    detail: "a record is sealed with the newest KEK now",
    authority: record.id,
  });
}

function logOverdue(mint: Mint, signsFrom: Date): void {
  mint.log.operation({
    event: "rotation-overdue",
    level: "error",
    detail:
      "the successor comes too late for every verifier to know its root before it signs: the cron did not run for long",
    signsFrom: signsFrom.toISOString(),
  });
}

function logFault({ log }: Mint, fault: unknown): void {
  log.operation({
    event: "rotation-fault",
    level: "error",
    detail: fault instanceof Error ? fault.message : "something that is not an error was thrown",
  });
}

function fulfilled<T>(results: readonly PromiseSettledResult<T>[]): T[] {
  return results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
}

function reasonOf(result: PromiseSettledResult<unknown>): unknown[] {
  return result.status === "rejected" ? [result.reason] : [];
}
