import type { Caller, SingleUse } from "../../authn/caller.ts";
import { CaError, rejectCredential } from "../../foundation/errors.ts";

/**
 * Remembers a token until it expires, for every process that issues in this CA's name, and over a restart. Of two uses at
 * once, one is the first.
 *
 * @returns Whether this is the first use.
 * @throws CaError `too-many-waiting` where no more tokens can be remembered.
 */
export type UseToken = (token: SingleUse, now: Date) => Promise<boolean>;

/**
 * Marks a single-use token as used, and refuses one that is marked already. Call it last before signing, so that a call
 * that is refused for another reason does not use up its token.
 *
 * @throws CaError `credential-rejected` (`replay`), `too-many-waiting`; `store-unreachable` without `useToken`.
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
