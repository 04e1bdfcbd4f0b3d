import { authoritiesIn } from "../../../status/authorities.ts";
import { openStore, type Session } from "../../session/session.ts";
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
