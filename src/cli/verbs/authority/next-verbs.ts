import type { Session } from "../../session/session.ts";
import type { NextStep } from "../../terminal/terminal.ts";

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
