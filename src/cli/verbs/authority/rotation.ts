import { type Command, Option } from "commander";
import { Mint } from "../../../ca/mint.ts";
import type { OpenedStore } from "../../../ca/opened-store.ts";
import { askUpstream } from "../../../ca/rotation/ask-upstream.ts";
import { Rotation } from "../../../ca/rotation/rotate.ts";
import { TaintForecast } from "../../../ca/rotation/taint-forecast.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { createTaint, type Departure } from "../../../pki/authority/new-taint.ts";
import { Succession } from "../../../pki/authority/rotation.ts";
import { Schedule } from "../../../pki/authority/schedule.ts";
import { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { Taint } from "../../../pki/authority/taint.ts";
import { TokenKey } from "../../../pki/jose/token-key.ts";
import { wholeSeconds } from "../../../pki/x509/validity.ts";
import { Session, type SessionOptions } from "../../session/session.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";
import { findByIdPrefix, requireAuthority, requireMayMint } from "./requirements.ts";
import {
  backupStep,
  doctorStep,
  planStep,
  printStoreSummary,
  printTaintedAuthorities,
} from "./store-summary.ts";

/** Adds `authority rotate`. */
export function addRotate(command: Command, terminal: Terminal): void {
  command
    .description(
      "mint the successor now instead of when it is due; it signs once every verifier has its root",
    )
    .option("-y, --yes", "do not ask for confirmation, as a script or a cron job needs it")
    .action(Session.action(terminal, rotateNow));
}

/**
 * Makes the next authority now instead of when it is due, after a confirmation. It signs once every verifier has its
 * root.
 * @throws OperatorError without an authority, with a successor already, and if this command cannot make an authority.
 */
export async function rotateNow(session: Session): Promise<void> {
  const { terminal, mint, now, isDry } = session;
  const store = await Session.open(session);
  requireAuthority(store);
  const authorities = store.openAuthorities.map(({ authority }) => authority);
  requireNoSuccessor(authorities, now);
  requireMayMint(session);
  const schedule = Schedule.next(mint.phaseLengths, Succession.lastSignature(authorities), now);
  const isUpstream = mint.authorityRoot === "upstream";
  const start = isUpstream ? askedSentence : mintedSentence(schedule);
  const question = `${signerSentence(authorities, now)}\n${start}\nRotate the ${session.place}?`;
  await Session.confirm(session, question);
  if (isUpstream) {
    await terminal.progress("asking the CA upstream", () =>
      orOperatorError(() => askUpstream(mint, undefined, now)),
    );
  } else {
    await Mint.mintAuthority(mint, schedule);
  }
  await printStoreSummary(session);
  if (!isDry) terminal.noticeNext([planStep, backupStep]);
}

function requireNoSuccessor(authorities: readonly SigningAuthority[], now: Date): void {
  const prepared = SigningAuthority.nextAt(authorities, now);
  if (!prepared) return;
  const when = formatInstant(prepared.schedule.signsFrom);
  throw new OperatorError(`a successor is prepared: ${shortId(prepared.id)} signs from ${when}`);
}

function signerSentence(authorities: readonly SigningAuthority[], now: Date): string {
  const signer = SigningAuthority.at(authorities, now);
  if (!signer) return "No authority signs now.";
  return `${shortId(signer.id)} signs now, until ${formatInstant(signer.schedule.signsUntil)} at the latest.`;
}

const mintedSentence = ({ publishedFrom, signsFrom, signsUntil }: Schedule): string =>
  `A new authority is minted. It is published from ${formatInstant(publishedFrom)}, and signs from ${formatInstant(signsFrom)} until ${formatInstant(signsUntil)}.`;

const askedSentence =
  "The CA upstream is asked for an intermediate, which signs once every verifier has its root.";

interface TaintOptions extends SessionOptions {
  readonly root: Departure;
}

/** Adds `authority taint`. */
export function addTaint(command: Command, terminal: Terminal): void {
  command
    .argument(
      "<id>",
      "the id of an authority as `list` shows it, or of a key for tokens (its `kid`); or its first 4 characters or more",
    )
    .description(
      "stop an authority whose key may be compromised: it signs nothing from now on, and another takes over",
    )
    .addOption(
      new Option("--root <when>", "when its root leaves the trust bundle")
        .choices(["immediately", "with-last-leaf"] satisfies Departure[])
        .makeOptionMandatory(),
    )
    .option("-y, --yes", "do not ask for confirmation")
    .addHelpText(
      "after",
      `
  immediately     verifiers refuse its certificates, and a thief's, as soon as they have the new
                  trust bundle; workloads that have not renewed by then lose their peers
  with-last-leaf  no connection breaks; a thief of the key can sign until its last certificate
                  expires`,
    )
    .action(Session.action(terminal, taint));
}

/**
 * Records that the key of an authority, or one for tokens, may be compromised, after a confirmation: it signs nothing
 * from then on. Then it rotates.
 * @throws OperatorError if none, or more than one, has the prefix `id`; if the taint would change nothing; and if the
 *   rotation fails in part, after the taint.
 */
export async function taint(session: Session, id: string, options: TaintOptions): Promise<void> {
  const { terminal, mint, now } = session;
  const store = await Session.open(session);
  const candidates = [...store.authorities, ...store.tokenKeys];
  const subject = findByIdPrefix(candidates, id, "authority");
  if (!store.authorities.some((each) => each === subject)) {
    return taintTokenKey(session, store, subject.id);
  }
  const recorded = { ...store, taints: store.storedTaints };
  const decided = createTaint(recorded, subject.id, options.root, mint.phaseLengths, now);
  try {
    requireEffect(recorded, decided);
  } catch (refusal) {
    // An interrupted run may have recorded the taint without the rotation.
    if (!session.isDry) await Rotation.rotate(mint, now);
    throw refusal;
  }
  await Session.confirm(session, taintQuestion(session, store, decided));
  await Mint.recordTaint(mint, decided);
  const faults = await Rotation.rotate(mint, now).then(() => 0, countFaults);
  await printStoreSummary(session);
  printTaintedAuthorities(session, store, decided);
  if (!session.isDry) terminal.noticeNext([planStep, backupStep, doctorStep]);
  if (faults > 0) {
    throw new OperatorError(
      `the authority is tainted, but the rotation after it failed in part (faults: ${faults}): the next cron run continues`,
    );
  }
}

/** Taints a key for tokens, whatever `--root` says: it leaves the documents at once, because it is no root. */
async function taintTokenKey(
  session: Session,
  { tokenKeys }: OpenedStore,
  id: string,
): Promise<void> {
  const { terminal, mint, place, now, isDry } = session;
  const left = tokenKeys.map((key) => (key.id === id ? { ...key, isTainted: true } : key));
  const gap = tokenGapSentence(left, now);
  const question = `Taint ${id}, a key for JWT-SVIDs, in the ${place}? It signs nothing more, and leaves the documents at once.${gap}`;
  await Session.confirm(session, question);
  const taintedAt = wholeSeconds(now);
  await Mint.recordTaint(mint, { id, taintedAt, retiresAt: taintedAt });
  await Rotation.rotate(mint, now).catch(countFaults);
  terminal.print(
    `${id} ${isDry ? "would be" : "is"} tainted. Relying parties that cache the keys take its tokens until they ask again.${gap}`,
  );
}

function tokenGapSentence(keys: OpenedStore["tokenKeys"], now: Date): string {
  const from = TokenKey.signingAgainFrom(keys, now);
  if (from) return ` No token is issued until ${formatInstant(from)}.`;
  if (keys.some(({ isTainted, schedule }) => !isTainted && now < schedule.signsUntil)) return "";
  return " No token is issued until a new key has been published for 25 hours.";
}

/**
 * Refuses a taint that changes nothing, because nothing ever deletes the record of a taint. The first taint of a root
 * in the bundle always passes, because it ends signing.
 * @throws OperatorError if the root has left the bundle, or an earlier taint makes it leave as early.
 */
export function requireEffect(
  { authorities, taints }: Parameters<typeof createTaint>[0],
  { id, taintedAt, retiresAt }: Taint,
): void {
  const left = Taint.apply(authorities, taints).find((each) => each.id === id)?.schedule.retiresAt;
  if (left && left <= taintedAt) throw new OperatorError(`${id} has left the trust bundle already`);
  if (left && left <= retiresAt && taints.some((taint) => taint.id === id)) {
    const when = formatInstant(left);
    throw new OperatorError(`${id} is tainted or removed already, and leaves the bundle ${when}`);
  }
}

function taintQuestion({ mint, place, now }: Session, store: OpenedStore, taint: Taint): string {
  const forecast = TaintForecast.of(store, mint.phaseLengths, now).find(
    ({ id }) => id === taint.id,
  );
  const gap = forecast ? gapSentence(forecast, now) : "";
  const until = formatInstant(taint.retiresAt);
  return `Taint ${taint.id} in the ${place}? It can never sign again, and is trusted until ${until}.${gap}`;
}

function gapSentence({ successorSignsFrom }: TaintForecast, now: Date): string {
  if (!successorSignsFrom) return " No authority signs until another intermediate is installed.";
  if (successorSignsFrom <= now) return "";
  return ` No authority signs until ${formatInstant(successorSignsFrom)}.`;
}

/** Counts the faults of a rotation, which has logged each itself. @throws Any other error. */
function countFaults(error: unknown): number {
  if (error instanceof AggregateError) return error.errors.length;
  throw error;
}
