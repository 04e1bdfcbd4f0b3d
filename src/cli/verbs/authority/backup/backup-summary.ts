import type { OpenedStore } from "../../../../ca/opened-store.ts";
import { type ConfiguredTaint, taintsOf } from "../../../../pki/authority/taint.ts";
import { formatInstant, shortId } from "../../../terminal/text.ts";
import type { OpenedBackup } from "./backup.ts";

/** The circumstances of a restore. */
export interface Restoring {
  readonly store: OpenedStore;
  readonly configuredTaints: readonly ConfiguredTaint[];
  readonly now: Date;
}

/** The age of a backup, the taints in it, and the taints only here: the operator's grounds to restore it. */
export function summarizeBackup(
  backup: OpenedBackup,
  { store, configuredTaints, now }: Restoring,
): string {
  const authorities = backup.authorities.map(({ authority }) => authority);
  const held = new Set(backup.statements.taint.map(({ id }) => id));
  const here = taintsOf(configuredTaints, [...authorities, ...backup.statements.root]);
  const known = [...store.storedTaints, ...here].map(({ id }) => id);
  const restored = new Set([...authorities, ...backup.statements.root].map(({ id }) => id));
  const kept = [...new Set(known)].filter((id) => restored.has(id) && !held.has(id));
  const untainted = authorities.filter(({ id }) => !held.has(id) && !known.includes(id));
  return [
    ageOf(backup.writtenAt, now),
    `It holds ${counted(authorities.length, "authority", "authorities")}; tainted in it: ${listed([...held])}.`,
    ...(backup.requests.length > 0
      ? [`Open requests in it: ${listed(backup.requests.map(({ id }) => id))}.`]
      : []),
    ...(kept.length > 0 ? [`Tainted here and not in it, and still after: ${listed(kept)}.`] : []),
    `May sign when its time comes: ${listed(untainted.map(({ id }) => id))}.`,
    "A taint that was made after the backup, and that store and TAINTED_AUTHORITIES lack, is lost.",
  ].join("\n");
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
