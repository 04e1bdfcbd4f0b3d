import { rotateAll } from "../../ca/rotation/rotate.ts";
import type { PhaseLengths } from "../../pki/authority/schedule.ts";
import type { ServerContext } from "../server.ts";
import type { ReplicaStores } from "../stores/stores.ts";
import type { LiveCa } from "./live-ca.ts";
import { followPluggedIn } from "./plugged-in.ts";
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
