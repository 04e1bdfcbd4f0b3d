import type { OpenedStore } from "../../../ca/opened-store.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import type { Session } from "../../session/session.ts";

/**
 * Requires that this command can make an authority.
 * @throws OperatorError with an offline root, and in a dry run that would have to call the upstream CA.
 */
export function requireMayMint({ mint, isDry }: Session): void {
  if (mint.authorityRoot === "upstream" && isDry) {
    throw new OperatorError(
      "nothing was done: a dry run does not ask the CA upstream for anything",
    );
  }
  if (mint.authorityRoot !== "offline") return;
  throw new OperatorError(
    "AUTHORITY_ROOT is offline: make a request with `rampart authority request`, and install its answer",
  );
}

/** Requires an authority in the store. @throws OperatorError that says how to get the first one. */
export function requireAuthority(store: OpenedStore): void {
  const { authorities, refusals } = store;
  if (authorities.length > 0) return;
  throw new OperatorError(
    refusals.length > 0
      ? `no authority opens: the store holds records that do not open (${refusals.length})`
      : `the store holds no authority: ${firstStep(store)}`,
  );
}

function firstStep({ authorityRoot, requests }: OpenedStore): string {
  if (authorityRoot !== "offline") return "create one with `rampart authority init`, or import one";
  return requests.length > 0
    ? "install the answer to the open request with `rampart authority install chain.pem`"
    : "make a request with `rampart authority request`, or import one";
}

/** The least length of a prefix: an empty shell variable must not choose an authority. */
const minimumLength = 4;

/**
 * Finds the one candidate whose id has this prefix.
 * @throws OperatorError if none or more than one has it, and for fewer than 4 characters.
 */
export function findByIdPrefix<T extends { readonly id: string }>(
  candidates: readonly T[],
  prefix: string,
  what: string,
): T {
  if (prefix.length < minimumLength) {
    throw new OperatorError(
      `give at least the first ${minimumLength} characters of the ${what}'s id`,
    );
  }
  const [found, another] = candidates.filter(({ id }) => id.startsWith(prefix));
  if (!found) throw new OperatorError(`no ${what}'s id begins with ${prefix}`);
  if (!another) return found;
  throw new OperatorError(`more than one ${what}'s id begins with ${prefix}: give more characters`);
}
