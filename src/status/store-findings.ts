import type { OpenedStore } from "../ca/opened-store.ts";
import { NextStep } from "../ca/rotation/next-step.ts";
import { InceptionDate } from "../config/signer-table.ts";
import type { RecordError } from "../custody/record-fields.ts";
import { Succession } from "../pki/authority/rotation.ts";
import { Schedule } from "../pki/authority/schedule.ts";
import { SigningAuthority } from "../pki/authority/signing-authority.ts";
import { Taint } from "../pki/authority/taint.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import { AuthorityStatus } from "./authorities.ts";
import { Finding } from "./finding.ts";

/** How late a rotation may be: a cron runs every quarter of an hour, and may fail a few times. */
const cronDelaySeconds = 3600;

/**
 * Findings about the records of a CA's store, from its opened content alone.
 *
 * @param inceptionDate The UTC day on which an empty store gets its first authority, such as `2026-11-22`.
 */
export function storeFindings(
  store: OpenedStore,
  inceptionDate: string | undefined,
  now: Date,
): readonly Finding[] {
  return [
    ...refusedRecords(store),
    ...(store.authorities.length === 0
      ? withoutAuthorities(store, inceptionDate, now)
      : [...signing(store, now), ...succession(store, now), ...backups(store, now)]),
    ...trustedTaints(store, now),
    ...endedDenials(store, now),
  ];
}

function refusedRecords({ refusals }: OpenedStore): Finding[] {
  return refusals.map(({ kind, id, refusal }) =>
    Finding.of(
      "record-refused",
      `The record ${kind} ${id} does not open: ${refusal.message}.`,
      remedies[refusal.check] ??
        "Restore the record: `rampart authority restore rampart-backup.age`",
    ),
  );
}

/** The first remedy, because a lost KEK is far more likely than a forged record. */
const compareKek =
  "Compare the value of KEK with the copy of it that you keep, before anything else";

const remedies: Readonly<Partial<Record<RecordError["check"], string>>> = {
  kek: "Set the KEK that sealed it; KEK may hold the old one beside the new one",
  seal: `${compareKek}: under the same id it may have another value. If it is the same, somebody has changed the record: \`rampart authority restore rampart-backup.age\``,
};

/** Findings about a store without a usable authority. If authorities are there but cannot be opened, a new CA is no remedy. */
function withoutAuthorities(
  store: OpenedStore,
  inceptionDate: string | undefined,
  now: Date,
): Finding[] {
  const unopened = AuthorityStatus.unopenedIn(store);
  if (unopened === undefined) return emptyStore(store, inceptionDate, now);
  return [Finding.of("nothing-signs", unopened, compareKek)];
}

/** The remedy for lost records: founding a new authority instead would invalidate every certificate under them. */
const lostRecords =
  "If the CA had records, look whether their volume is mounted, then: `rampart authority restore rampart-backup.age`";

/** A store without authorities is an outage, except on the day on which the CA creates the first one itself. */
function emptyStore(
  { authorityRoot }: OpenedStore,
  inceptionDate: string | undefined,
  now: Date,
): Finding[] {
  const today = InceptionDate.dayOf(now);
  const isOffline = authorityRoot === "offline";
  const first = isOffline ? "`rampart authority request`" : "`rampart authority init`";
  const forNew = `${lostRecords}. For a new CA: ${first}`;
  const nothingSigns = Finding.of(
    "nothing-signs",
    "The store holds no authority, and none comes by itself.",
    forNew,
  );
  if (isOffline) {
    const what = "The store holds no authority, and a person has to carry the first request.";
    return [Finding.of("store-empty", what, first), nothingSigns];
  }
  if (InceptionDate.isOver(inceptionDate, now)) {
    const what = `The store is empty, and INCEPTION_DATE ${inceptionDate} is over.`;
    // The remedy for a new CA is a date to set, because no command may create one in place of lost records.
    const remedy = `${lostRecords}. For a new CA, set INCEPTION_DATE = "${today}"`;
    return [Finding.of("inception-date-passed", what, remedy)];
  }
  const day = inceptionDate === today ? "today" : (inceptionDate ?? "not set");
  const what = `The store holds no authority, and INCEPTION_DATE is ${day}.`;
  return [
    Finding.of("store-empty", what, forNew),
    ...(inceptionDate === today ? [] : [nothingSigns]),
  ];
}

function signing({ openAuthorities }: OpenedStore, now: Date): Finding[] {
  const authorities = openAuthorities.map(({ authority }) => authority);
  if (SigningAuthority.at(authorities, now)) return [];
  const next = SigningAuthority.nextAt(authorities, now)?.schedule;
  const what = next
    ? `No authority signs before ${next.signsFrom.toISOString()}.`
    : "No authority signs, and none is scheduled to.";
  const remedy = next ? "`rampart authority plan`" : "`rampart authority rotate`";
  return [Finding.of("nothing-signs", what, remedy)];
}

function succession(store: OpenedStore, now: Date): Finding[] {
  if (store.authorityRoot !== "self") {
    return NextStep.reasonsAt(store, now).map((reason) =>
      Finding.of("next-step-due", `${capitalised(reason)}.`, "`rampart authority plan`"),
    );
  }
  const { phaseLengths } = store;
  const until = Succession.lastSignature(Taint.apply(store.authorities, store.taints));
  const what = `The last authority signs until ${until.toISOString()}, and the store has no successor.`;
  const remedy = "`rampart authority rotate`, and find out why the scheduled run does not mint";
  if (now > addSeconds(until, -Schedule.leadSeconds(phaseLengths))) {
    return [Finding.of("authority-successor-late", what, remedy)];
  }
  if (now < addSeconds(Succession.mintDue(until, phaseLengths), cronDelaySeconds)) return [];
  return [Finding.of("authority-successor-missing", what, remedy)];
}

/** How long after its creation an authority should be in a backup. */
const unsavedSeconds = 86_400;

function backups(
  { authorities, tokenKeys, lastBackup, phaseLengths }: OpenedStore,
  now: Date,
): Finding[] {
  const mintedAt = ({ publishedFrom }: Schedule): Date =>
    addSeconds(publishedFrom, -phaseLengths.propagationSeconds);
  const isUnsaved = ({ schedule }: { readonly schedule: Schedule }): boolean =>
    now < schedule.retiresAt &&
    addSeconds(schedule.publishedFrom, unsavedSeconds) < now &&
    (lastBackup === undefined || lastBackup < mintedAt(schedule));
  const unsaved = authorities.filter(isUnsaved);
  const unsavedKeys = tokenKeys.filter((key) => !key.isTainted && isUnsaved(key));
  if (unsaved.length + unsavedKeys.length === 0) return [];
  const known = lastBackup
    ? `The last backup is of ${lastBackup.toISOString()}`
    : "No backup is known of";
  const missing = [
    ...(unsaved.length > 0 ? [`${unsaved.length} of ${authorities.length} authorities`] : []),
    ...(unsavedKeys.length > 0
      ? [`${unsavedKeys.length} of ${tokenKeys.length} keys for tokens`]
      : []),
  ].join(" and ");
  const what = `${known}; ${missing} are in none.`;
  return [Finding.of("backup-old", what, "`rampart authority export -o rampart-backup.age`")];
}

function trustedTaints(
  { taints, authorities, additionalRoots }: OpenedStore,
  now: Date,
): Finding[] {
  const tainted = new Set(taints.map(({ id }) => id));
  return Taint.apply([...authorities, ...additionalRoots], taints)
    .filter(({ id, schedule }) => tainted.has(id) && now < schedule.retiresAt)
    .map(({ id, schedule }) =>
      Finding.of(
        "taint-still-trusted",
        `The root of the tainted authority ${id} stays in the trust bundle until ${schedule.retiresAt.toISOString()}.`,
        `To end it now, which breaks every connection with a leaf under it: \`rampart authority taint ${id} --root immediately\``,
      ),
    );
}

function endedDenials({ denials }: OpenedStore, now: Date): Finding[] {
  const [ended, ...others] = denials.filter(({ until }) => until !== undefined && until <= now);
  if (!ended) return [];
  const what = `${others.length + 1} of ${denials.length} denials have ended.`;
  // Quoted, so that the shell does not expand a glob.
  const subject = ended.subject.includes("*") ? `'${ended.subject}'` : ended.subject;
  const remedy = `\`rampart deny remove ${subject}\`; \`rampart deny list\` shows all`;
  return [Finding.of("denial-ended", what, remedy)];
}

const capitalised = (sentence: string): string =>
  `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}`;
