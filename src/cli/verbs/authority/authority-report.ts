import type { AuthorityStatus } from "../../../status/authorities.ts";
import type { Screen } from "../../terminal/screen.ts";
import { formatTable } from "../../terminal/table.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";

/** Authorities and additional roots as a table. */
export function formatAuthorities(screen: Screen, authorities: readonly AuthorityStatus[]): string {
  if (authorities.length === 0) return "The store holds no authority.";
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

/** A taint cuts the schedule, so that the schedule no longer shows when the authority stopped. */
function signsUntilOf({ key, isTainted, taintedAt, schedule }: AuthorityStatus): string {
  if (!key) return "never";
  if (!isTainted) return formatInstant(schedule.signsUntil);
  return taintedAt ? `tainted ${formatInstant(taintedAt)}` : "configuration";
}
