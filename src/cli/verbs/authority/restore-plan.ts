import type { OpenedStore } from "../../../ca/opened-store.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { rootSince } from "../../../pki/authority/rotation.ts";
import { type Phase, Schedule } from "../../../pki/authority/schedule.ts";
import type { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { type ConfiguredTaint, Taint } from "../../../pki/authority/taint.ts";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import { addSeconds } from "../../../pki/x509/validity.ts";
import type { Session } from "../../session/session.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";
import { restoredTokenKeys } from "./backup-content.ts";
import type { OpenedBackup } from "./backup-file.ts";

/**
 * Refuses to restore one CA beside another: the newest authority signs at once, but every verifier accepts its leaves only
 * after the bundle has had its root for as long as a leaf lasts.
 * @throws OperatorError if both have authorities, but share neither an authority nor a root that was published so long ago.
 */
export function requireOneCa(
  { mint: { phaseLengths: lengths }, now, place }: Session,
  { authorities }: OpenedBackup,
  store: OpenedStore,
): void {
  const own = Taint.apply(store.authorities, store.taints);
  const living = own.filter(({ schedule }) => schedule.retiresAt > now);
  // Includes authorities that do not open here, because another process with the right KEK may sign with them.
  const unread = store.refusals.filter(({ kind }) => kind === "authority");
  if (authorities.length === 0 || living.length + unread.length === 0) return;
  const published = publishedIn(store);
  const held = new Set([...store.authorities, ...unread].map(({ id }) => id));
  const longAgo = addSeconds(now, -(lengths.longestLeafSeconds + lengths.propagationSeconds));
  const isKnown = (root: Bytes): boolean => (rootSince(published, root, now) ?? now) <= longAgo;
  if (authorities.some(({ authority: { id, roots } }) => held.has(id) || roots.some(isKnown))) {
    return;
  }
  throw new OperatorError(
    `another CA, with ${listed([...held])}, is in the ${place} already, and the backup shares no authority and no long published root with it. ` +
      "Certificates of one would fail wherever the bundle of the other is. Where the backup is the CA of this mesh, restore it into an empty store, and point the configuration there. " +
      `Where the store is, publish the root of the backup first: \`rampart root add ROOTS.pem\``,
  );
}

/** The circumstances of a restore. */
interface Restoring {
  readonly store: OpenedStore;
  readonly configuredTaints: readonly ConfiguredTaint[];
  readonly now: Date;
}

/**
 * Describes a backup to the operator before it is restored: its age, the taints in it and those only here, and what
 * would sign.
 */
export function summarizeBackup(
  backup: OpenedBackup,
  { store, configuredTaints, now }: Restoring,
): string {
  const authorities = backup.authorities.map(({ authority }) => authority);
  const held = new Set(backup.statements.taint.map(({ id }) => id));
  const tokenKeys = backup.tokenKeys.map(({ key }) => key);
  const subjects = [...authorities, ...backup.statements.root, ...tokenKeys];
  const here = Taint.fromConfiguration(configuredTaints, subjects);
  const taintsHere = [...store.storedTaints, ...here];
  const known = taintsHere.map(({ id }) => id);
  const restored = new Set(subjects.map(({ id }) => id));
  const kept = [...new Set(known)].filter((id) => restored.has(id) && !held.has(id));
  const others = store.authorities.filter(({ id }) => !restored.has(id));
  // An authority of the backup may sign at once where a taint has left a gap.
  const untainted = Taint.apply(
    [...authorities, ...others],
    [...backup.statements.taint, ...taintsHere],
  ).filter(({ id }) => restored.has(id) && !held.has(id) && !known.includes(id));
  return [
    ageOf(backup.writtenAt, now),
    `It holds ${counted(authorities.length, "authority", "authorities")}; tainted in it: ${listed([...held])}.`,
    ...(backup.requests.length > 0
      ? [`Open requests in it: ${listed(backup.requests.map(({ id }) => id))}.`]
      : []),
    ...(tokenKeys.length > 0 ? [tokenKeyLine(backup, store, now)] : []),
    ...(kept.length > 0 ? [`Tainted here and not in it, and still after: ${listed(kept)}.`] : []),
    ...signingLines(untainted, publishedIn(store), now),
    "A taint that was made after the backup, and that store and TAINTED_AUTHORITIES lack, is lost.",
  ].join("\n");
}

function tokenKeyLine(backup: OpenedBackup, store: OpenedStore, now: Date): string {
  const ids = listed(backup.tokenKeys.map(({ key }) => key.id));
  const isLeftOut = restoredTokenKeys(backup.tokenKeys, store, now).length === 0;
  return isLeftOut
    ? `Keys for tokens in it stay out, because the store has others: ${ids}.`
    : `Keys for tokens in it: ${ids}.`;
}

/** Says which authorities sign when, and which have roots that the store's current bundle lacks. */
function signingLines(
  authorities: readonly SigningAuthority[],
  published: ReturnType<typeof publishedIn>,
  now: Date,
): readonly string[] {
  const inPhase = (...wanted: readonly Phase[]) =>
    authorities.filter(({ schedule }) => wanted.includes(Schedule.phaseAt(schedule, now)));
  const later = inPhase("future", "published").map(
    ({ id, schedule }) => `${shortId(id)} from ${formatInstant(schedule.signsFrom)}`,
  );
  const isNew = ({ roots }: SigningAuthority): boolean =>
    !roots.some((root) => rootSince(published, root, now));
  const strange = published.length > 0 ? inPhase("signing").filter(isNew) : [];
  return [
    `May sign at once: ${listed(inPhase("signing").map(({ id }) => id))}.`,
    ...(later.length > 0 ? [`May sign later: ${later.join(", ")}.`] : []),
    ...(strange.length > 0
      ? [`The bundle of the store lacks the roots of: ${listed(strange.map(({ id }) => id))}.`]
      : []),
  ];
}

function ageOf(writtenAt: Date | undefined, now: Date): string {
  if (!writtenAt) return "The backup does not say when it was written.";
  const hours = Math.floor((now.getTime() - writtenAt.getTime()) / 3_600_000);
  const written = `The backup was written at ${formatInstant(writtenAt)}`;
  if (hours < 0) return `${written}, which is in the future by this clock.`;
  const days = Math.floor(hours / 24);
  return `${written}, ${days > 0 ? counted(days, "day", "days") : counted(hours, "hour", "hours")} ago.`;
}

const counted = (count: number, one: string, many: string): string =>
  `${count} ${count === 1 ? one : many}`;

const listed = (ids: readonly string[]): string =>
  ids.length > 0 ? ids.map(shortId).join(", ") : "none";

/** The authorities and roots that the bundle has or will have, with the schedules that the taints leave. */
const publishedIn = ({ authorities, additionalRoots, taints }: OpenedStore) =>
  Taint.apply([...authorities, ...additionalRoots], taints);
