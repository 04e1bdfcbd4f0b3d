import { formatTaintedAuthorities } from "../../../config/distrust.ts";
import type { Taint } from "../../../pki/authority/taint.ts";
import type { Session } from "../../session/session.ts";

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
