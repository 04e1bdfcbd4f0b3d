import type { Mint } from "../../ca/mint.ts";
import { rotateAll } from "../../ca/rotation/rotate.ts";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import type { PhaseLengths } from "../../pki/authority/schedule.ts";
import type { PluggedInImport, ServerContext } from "../server.ts";
import type { ReplicaStores } from "../stores/stores.ts";
import type { LiveCa } from "./live-ca.ts";
import type { ServeConfiguration } from "./serve-configuration.ts";

/** The longest time between two rotations. */
export const longestRotationSeconds = 60;

/**
 * Rotates every signer by the configuration of that moment, in the turn of this replica.
 *
 * @returns A run that says when the next is due.
 */
export function rotationOf(
  { current }: LiveCa,
  context: ServerContext,
  { inTurn }: Pick<ReplicaStores, "inTurn">,
): () => Promise<number> {
  const { clock } = context;
  const importChanged = pluggedInOf(current().configuration, context);
  return async () => {
    const { composition, configuration, push } = current();
    const { mint, signerMints } = composition;
    const seconds = rotationSeconds(configuration.ca.phaseLengths);
    try {
      await inTurn(async () => {
        await importChanged(mint, clock());
        await rotateAll([mint, ...signerMints.values()], clock()).finally(push.begin);
      });
    } catch {
      // A failed rotation has logged its faults, and the next one retries.
    }
    return seconds;
  };
}

function pluggedInOf(
  { importDirectory }: ServeConfiguration,
  { importPluggedIn, log }: ServerContext,
): ReturnType<typeof followPluggedIn> {
  if (importDirectory === undefined || !importPluggedIn) return async () => {};
  return followPluggedIn(importDirectory, importPluggedIn, log);
}

/** Short enough for every phase of a schedule, and for an operator who waits for a rotation. */
function rotationSeconds({ longestLeafSeconds, signingSeconds }: PhaseLengths): number {
  return Math.min(longestRotationSeconds, longestLeafSeconds / 8, signingSeconds / 8);
}

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
