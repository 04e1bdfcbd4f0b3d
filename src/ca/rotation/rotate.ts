import { AuthorityRecord } from "../../custody/authority-record.ts";
import {
  type AuthorityStore,
  RecordName,
  type StoredRecord,
} from "../../custody/authority-store.ts";
import { Statement } from "../../custody/statement.ts";
import { messageOf } from "../../foundation/errors.ts";
import { RotationStep, Succession } from "../../pki/authority/rotation.ts";
import { Schedule } from "../../pki/authority/schedule.ts";
import { Taint } from "../../pki/authority/taint.ts";
import { exposuresAt, missingTaintsAt, unrecordedTaintsAt } from "../authority-view.ts";
import { carryOutKeyPlan, Mint, planKeys } from "../mint.ts";
import { OpenedStore } from "../opened-store.ts";
import { expiredRevocations } from "../revocation/crl-plan.ts";
import { askUpstream } from "./ask-upstream.ts";
import { NextStep } from "./next-step.ts";

/** Rotates authorities. */
export const Rotation = {
  /**
   * Reads every record and carries out the acts that are due: it founds, mints, prunes, and reseals under
   * the newest KEK.
   *
   * Runs may be missed, late, doubled, or read an old list. No run changes a record that another may write,
   * so together they make at most one authority too many. A step that fails does not stop the others.
   *
   * @throws AggregateError with every fault, after all other steps; the platform then shows a failed run. The fault itself
   *   if the store cannot be read, or has no authority and gets none.
   */
  async rotate(mint: Mint, now: Date): Promise<void> {
    const stored = await mint.store.load();
    if (stored.some(({ kind }) => kind === "authority")) founded.add(mint.store);
    else {
      try {
        if (founded.has(mint.store)) {
          throw new Error("the store held authorities and holds none now: restore a backup");
        }
        await foundIfEmpty(mint, now);
        return await carryOutKeyPlan(mint, planKeys(mint, undefined, now));
      } catch (fault) {
        logFault(mint, fault);
        throw fault;
      }
    }
    const opened = await OpenedStore.open(stored, mint);
    const refused = new Set(opened.refusals.map(RecordName.key));
    const readable = stored.filter((record) => !refused.has(RecordName.key(record)));
    const done = opened.authorities.length > 0 ? await carryOut(mint, opened, readable, now) : [];
    const faults = done.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
    for (const fault of faults) logFault(mint, fault);
    logExposures(mint, opened, now);
    const all = [...opened.refusals.map(({ refusal }) => refusal), ...faults];
    if (all.length > 0) throw new AggregateError(all, `the rotation met ${all.length} faults`);
  },

  /**
   * Rotates the unnamed authorities and those of every named signer. An error of one does not stop the others, and is
   * thrown at the end; several as an AggregateError.
   */
  async rotateAll(mints: readonly Mint[], now: Date): Promise<void> {
    const runs = await Promise.allSettled(mints.map((mint) => Rotation.rotate(mint, now)));
    // Runs after the rotation, so that a new root has a CRL before the bundle contains the root.
    const keep = mints.find(({ crlRoot }) => crlRoot)?.crlRoot?.keep;
    runs.push(...(await Promise.allSettled([keep?.(mints, now)])));
    const faults = runs.flatMap((run) => (run.status === "rejected" ? [run.reason] : []));
    const [first, ...more] = faults;
    if (more.length > 0) throw new AggregateError(faults, `${faults.length} rotations met faults`);
    if (first !== undefined) throw first;
  },

  /**
   * Creates the first authority; the caller has seen that the store is empty. The upstream CA signs its certificate if the
   * configuration names one. An authority that joins a mesh is published before it signs.
   */
  async found(mint: Mint, now: Date): Promise<void> {
    if (mint.authorityRoot === "upstream") await askUpstream(mint, undefined, now);
    else {
      const scheduleOf = mint.joinsMesh ? Schedule.joining : Schedule.first;
      await Mint.mintAuthority(mint, scheduleOf(mint.phaseLengths, now));
    }
  },
};

function logFault({ log }: Mint, fault: unknown): void {
  log.operation({ event: "rotation-fault", level: "error", detail: messageOf(fault) });
}

async function carryOut(
  mint: Mint,
  opened: OpenedStore,
  readable: readonly StoredRecord[],
  now: Date,
): Promise<readonly PromiseSettledResult<void>[]> {
  const steps = RotationStep.plan(opened, mint.phaseLengths, now);
  const { propagationSeconds } = mint.phaseLengths;
  const keys = planKeys(mint, opened, now);
  const isPruned = ({ kind, id }: StoredRecord): boolean =>
    (kind === "tokenKey" && keys.prune.includes(id)) ||
    (kind === "authority" && steps.some((step) => step.act === "prune" && step.id === id));
  const answered = readable.filter(
    ({ kind, id }) => kind === "request" && opened.authorities.some((each) => each.id === id),
  );
  const expired = expiredRevocations(opened.revocations, propagationSeconds, now);
  const isExpired = ({ kind, id }: StoredRecord): boolean =>
    kind === "revocation" && expired.some((each) => each.id === id);
  return Promise.allSettled([
    ...steps.map((step) => carryOutStep(mint, opened, step, now)),
    carryOutKeyPlan(mint, keys),
    ...unrecordedTaintsAt(opened, now).map((taint) => Mint.recordTaint(mint, taint)),
    ...answered.map((record) => dropRequest(mint, record)),
    ...expired.map((name) => mint.store.delete(name)),
    ...readable
      .filter((record) => !isPruned(record) && !isExpired(record) && !answered.includes(record))
      .map((record) => reseal(mint, record)),
  ]);
}

async function carryOutStep(
  mint: Mint,
  opened: OpenedStore,
  step: RotationStep,
  now: Date,
): Promise<void> {
  if (step.act === "mint") {
    logCause(mint, step.cause, step.schedule);
    return Mint.mintAuthority(mint, step.schedule);
  }
  if (step.act === "ask") {
    const signsUntil = Succession.lastSignature(Taint.apply(opened.authorities, opened.taints));
    const isUrgent = step.cause !== "due";
    const { schedule } = await askUpstream(mint, { signsUntil, isUrgent }, now);
    return logCause(mint, step.cause, schedule);
  }
  await mint.store.delete({ kind: "authority", id: step.id });
  const detail = "a retired authority was deleted from the store";
  mint.log.operation({ event: "authority-pruned", level: "info", detail, authority: step.id });
}

/** Deletes a request that has its answer: its key is in the record of its authority. */
async function dropRequest(mint: Mint, { kind, id }: StoredRecord): Promise<void> {
  await mint.store.delete({ kind, id });
  const detail = "a request for an intermediate has its answer";
  mint.log.operation({ event: "request-dropped", level: "info", detail, authority: id });
}

async function reseal(mint: Mint, record: StoredRecord): Promise<void> {
  const { kind, id, value } = record;
  const resealed =
    kind === "authority"
      ? await AuthorityRecord.reseal(record, mint)
      : await Statement.reseal({ kind, id, value }, mint);
  if (!resealed) return;
  // Nothing is stored if an operator has deleted or replaced the record meanwhile.
  if (!(await Mint.storeRecord(mint, resealed, value))) return;
  mint.log.operation({
    event: "record-resealed",
    level: "info",
    record: kind,
    detail: "a record is sealed with the newest KEK now",
    authority: id,
  });
}

/** The events of successors that come too late. */
const lateCauses = {
  overdue: {
    event: "rotation-overdue",
    detail:
      "the successor comes too late for every verifier to know its root before it signs: the cron did not run for long",
  },
  taint: {
    event: "emergency-rotation",
    detail:
      "a taint leaves too little time for every verifier to know the successor's root before it signs",
  },
} as const;

function logCause(
  { log }: Mint,
  cause: keyof typeof lateCauses | "due",
  { signsFrom }: Schedule,
): void {
  if (cause === "due") return;
  const { event, detail } = lateCauses[cause];
  log.operation({ event, level: "error", detail, signsFrom: signsFrom.toISOString() });
}

/** Logs the tainted authorities that verifiers still trust. Every run repeats that while it is so. */
function logExposures({ log }: Mint, opened: OpenedStore, now: Date): void {
  for (const detail of exposuresAt(opened, now)) {
    log.operation({ event: "authority-exposed", level: "warning", detail });
  }
  for (const detail of missingTaintsAt(opened, now)) {
    log.operation({ event: "taint-missing", level: "warning", detail });
  }
  for (const detail of NextStep.reasonsAt(opened, now)) {
    log.operation({ event: "intermediate-due", level: "warning", detail });
  }
}

/** The stores in which this process has seen an authority. One that was emptied on its inception date gets no new CA. */
const founded = new WeakSet<AuthorityStore>();

/**
 * Creates the first authority of an empty store. With `AUTHORITY_ROOT = "upstream"` the upstream CA signs its
 * certificate. Does nothing if the store has an authority.
 *
 * @throws Error on another day than `INCEPTION_DATE`, with `AUTHORITY_ROOT = "offline"`, and if the store has other records.
 */
export async function foundIfEmpty(mint: Mint, now: Date): Promise<void> {
  const records = await mint.store.load();
  if (records.some(({ kind }) => kind === "authority")) return;
  if (mint.authorityRoot === "offline") {
    throw new Error(
      "the store holds no authority, and AUTHORITY_ROOT is offline: `rampart authority request` begins one",
    );
  }
  if (records.length > 0) {
    throw new Error("the store holds records but no authority: one was lost, or is on its way");
  }
  const today = now.toISOString().slice(0, 10);
  if (mint.inceptionDate !== today) {
    throw new Error(
      `the store holds no authority, and INCEPTION_DATE is ${mint.inceptionDate ?? "not set"} (today: ${today}): ` +
        "a store that was emptied must be restored, a new one needs today's date",
    );
  }
  await Rotation.found(mint, now);
}
