import type { Mint } from "../../ca/mint.ts";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";

/**
 * Imports the CA in a directory, unless the store has its certificate already.
 *
 * @throws OperatorError for one that no import lets in.
 */
export type PluggedInImport = (mint: Mint, directory: string, now: Date) => Promise<void>;

/**
 * Imports what another program puts into a directory, as istiod does with `cacerts`. What cannot be
 * imported is logged once, in one line, and nothing else changes.
 */
export function followPluggedIn(
  directory: string,
  importFrom: PluggedInImport,
  log: OperationLog,
): (mint: Mint, now: Date) => Promise<void> {
  let logged: string | undefined;
  return async (mint, now) => {
    try {
      await importFrom(mint, directory, now);
      logged = undefined;
    } catch (error) {
      const detail = messageOf(error).replaceAll("\n", "; ");
      if (detail !== logged)
        log.operation({ event: "plugged-in-refused", level: "warning", detail });
      logged = detail;
    }
  };
}
