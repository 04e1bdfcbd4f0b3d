import type { Caller, SingleUse } from "../../authn/caller.ts";
import { CaError, rejectCredential } from "../../foundation/errors.ts";

/**
 * Remembers a token until it ends, for every process that issues in this CA's name, and over a restart. Two uses at once
 * are one use and one refusal.
 *
 * @returns Whether this is the first use.
 * @throws CaError `too-many-waiting` where no more tokens can be remembered.
 */
export type UseToken = (token: SingleUse, now: Date) => Promise<boolean>;

/**
 * Refuses a token that must be used once, and was. It comes last before a signature, so that a call that is refused for
 * another reason leaves its token to the next one.
 *
 * @throws CaError `credential-rejected` (`replay`), `too-many-waiting`.
 */
export async function requireFirstUse(
  useToken: UseToken | undefined,
  { singleUse }: Caller,
  now: Date,
): Promise<void> {
  if (!singleUse) return;
  if (!useToken) {
    throw new CaError({ reason: "store-unreachable" }, "nobody remembers which tokens were used");
  }
  if (await useToken(singleUse, now)) return;
  throw rejectCredential("replay", "the token was used before");
}
