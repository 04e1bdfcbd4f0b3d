import type { OpenedStore } from "../../../ca/opened-store.ts";
import type { ConfiguredTaint, Taint } from "../../../pki/authority/taint.ts";
import { AuthorityStatus } from "../../../status/authorities.ts";
import { Session } from "../../session/session.ts";
import { formatTable } from "../../terminal/table.ts";
import type { NextCommand, Screen } from "../../terminal/terminal.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";

/** Prints the authorities after a change; in a dry run, what they would be, and which records would be written. */
export async function printStoreSummary(session: Session): Promise<void> {
  const { terminal, mint, now, isDry, place } = session;
  terminal.print(
    isDry ? `Nothing was written. Otherwise the ${place} would hold:` : `Now in the ${place}:`,
  );
  terminal.print(
    formatAuthorities(terminal, AuthorityStatus.allIn(await Session.open(session), now)),
  );
  if (!isDry) return;
  for (const { act, name } of mint.store.changes) terminal.print(`${act} ${name.kind} ${name.id}`);
}

/** The next step after a change of the authorities: the plan says what happens when, and who has the root. */
export const planStep: NextCommand = [
  "rampart authority plan",
  "shows what happens when, and which clusters have the next root",
];

/** The next step after a new key, which without a backup would be lost with the store. */
export const backupStep: NextCommand = [
  "rampart authority export --out rampart-backup.age",
  "writes a backup; an authority that is in none is lost with the store",
];

/** The next step after a change of many records. */
export const doctorStep: NextCommand = [
  "rampart doctor",
  "looks for faults in the configuration, the store and the clusters",
];

/**
 * Prints the line of the configuration that keeps a new taint, and the earlier ones, in force even if the store loses or
 * withholds them; nothing in a dry run.
 */
export function printTaintedAuthorities(
  { terminal, isDry, mint }: Session,
  { authorities, additionalRoots, storedTaints }: OpenedStore,
  taint: Taint,
): void {
  if (isDry) return;
  const present = new Set([...authorities, ...additionalRoots].map(({ id }) => id));
  const isEarlier = ({ id }: Taint): boolean => present.has(id) && id !== taint.id;
  const stated = [...storedTaints.filter(isEarlier), taint];
  const others = mint.configuredTaints.filter(
    ({ idPrefix, rootUntil }) =>
      !stated.some(
        ({ id, retiresAt }) => id.startsWith(idPrefix) && !(rootUntil && rootUntil < retiresAt),
      ),
  );
  const tables = stated.map(({ id, retiresAt }) => ({ idPrefix: id, rootUntil: retiresAt }));
  const line = formatTaintedAuthorities([...others, ...tables]);
  terminal.print(`
Anybody who can write to the store can withhold this taint, and an older backup does not have it. Put
this line into the configuration, where it counts whatever the store says: in rampart.toml above all
tables, in wrangler.toml under [vars]. Then deploy.
${line}`);
}

/** Formats authorities as a table; `ifNone` if there are none. */
export function formatAuthorities(
  screen: Screen,
  authorities: readonly AuthorityStatus[],
  ifNone = "The store holds no authority.",
): string {
  if (authorities.length === 0) return ifNone;
  return formatTable(
    screen,
    ["ID", "PHASE", "KEY", "PUBLISHED", "SIGNS FROM", "SIGNS UNTIL", "LEAVES BUNDLE", "SHA-256"],
    authorities.map((each) => [
      shortId(each.id),
      phaseOf(screen, each),
      each.key ?? "(root)",
      formatInstant(each.schedule.publishedFrom),
      each.key ? formatInstant(each.schedule.signsFrom) : "never",
      signsUntilOf(each),
      formatInstant(each.schedule.retiresAt),
      each.fingerprint.slice(0, 16),
    ]),
    ["SHA-256", "PUBLISHED"],
  );
}

function phaseOf({ styled }: Screen, { phase, signs, isTainted }: AuthorityStatus): string {
  if (isTainted) return styled("bad", `${phase}, tainted`);
  return signs ? styled("good", `${phase}, now`) : phase;
}

/** A taint shortens the schedule, which then does not show when the authority stopped. */
function signsUntilOf({ key, isTainted, taintedAt, schedule }: AuthorityStatus): string {
  if (!key) return "never";
  if (!isTainted) return formatInstant(schedule.signsUntil);
  return taintedAt ? `tainted ${formatInstant(taintedAt)}` : "configuration";
}

/** Formats these taints as the line `TAINTED_AUTHORITIES` of the configuration, in TOML. */
export function formatTaintedAuthorities(taints: readonly ConfiguredTaint[]): string {
  const tables = taints.map(({ idPrefix: id, rootUntil }) =>
    rootUntil
      ? `{ id = "${id}", root_until = "${rootUntil.toISOString().replace(".000Z", "Z")}" }`
      : `"${id}"`,
  );
  return `TAINTED_AUTHORITIES = [${tables.join(", ")}]`;
}
