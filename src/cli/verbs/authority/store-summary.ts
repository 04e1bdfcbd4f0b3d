import { formatTaintedAuthorities } from "../../../config/distrust.ts";
import type { Taint } from "../../../pki/authority/taint.ts";
import { authoritiesIn } from "../../../status/authorities.ts";
import { openStore, type Session } from "../../session/session.ts";
import type { NextStep } from "../../terminal/terminal.ts";
import { formatAuthorities } from "./authority-report.ts";

/** Prints the authorities after a change; for a dry run, as they would be. */
export async function printStoreSummary(session: Session): Promise<void> {
  const { terminal, mint, now, isDry, place } = session;
  terminal.print(
    isDry ? `Nothing was written. Otherwise the ${place} would hold:` : `Now in the ${place}:`,
  );
  terminal.print(formatAuthorities(terminal, authoritiesIn(await openStore(session), now)));
  if (!isDry) return;
  for (const { act, name } of mint.store.changes) terminal.print(`${act} ${name.kind} ${name.id}`);
}

type Typed = Pick<Session, "typed">;

/** After each change of the authorities: what happens when, and who has the root. */
export const planStep = ({ typed }: Typed): NextStep => [
  typed("authority plan"),
  "shows what happens when, and which clusters have the next root",
];

/** After each new key: without a backup it is lost with the store. */
export const backupStep = ({ typed }: Typed): NextStep => [
  typed("authority export --out rampart-backup.age"),
  "writes a backup; an authority that is in none is lost with the store",
];

/** After a change of many records. */
export const doctorStep = ({ typed }: Typed): NextStep => [
  typed("doctor"),
  "looks for faults in the configuration, the store and the clusters",
];

/** Prints the line of the configuration by which a taint counts even if the store loses or withholds it. */
export function printTaintedAuthorities(
  { terminal, isDry, mint }: Session,
  { id, retiresAt }: Taint,
): void {
  if (isDry) return;
  const others = mint.configuredTaints.filter(
    ({ idPrefix, rootUntil }) => !id.startsWith(idPrefix) || (rootUntil && rootUntil < retiresAt),
  );
  const line = formatTaintedAuthorities([...others, { idPrefix: id, rootUntil: retiresAt }]);
  terminal.print(`
Anybody who can write to the store can withhold this taint, and an older backup does not have it. Put
this line into the configuration, where it counts whatever the store says: in rampart.toml above all
tables, in wrangler.toml under [vars]. Then deploy.
${line}`);
}
