import { waitFor } from "../foundation/pause.ts";
import type { TokenIssuer } from "./token-issuer.ts";

/** How many issuers without keys a probe asks at most. */
const probesAtOnce = 4;

/** How long a probe waits for issuers. An issuer that has not answered by then is not reported. */
const longestProbeMilliseconds = 1_000;

/**
 * Creates the check whether any token can be verified. It fetches keys and asks API servers for reviews by itself,
 * so that a CA without callers notices an outage and its end.
 *
 * @param wait Waits for the probes, which go on when it ends; by default for a second at most.
 * @returns The fault as one sentence; `undefined` as long as one issuer has keys or has not failed yet, and without
 *   issuers.
 */
export function keyFaultFinder(
  issuers: readonly TokenIssuer[],
  wait: (probes: Promise<void>) => Promise<void> = (probes) =>
    waitFor(probes, longestProbeMilliseconds),
): (now: Date) => Promise<string | undefined> {
  return async (now) => {
    const withoutKeys = issuers.filter((each) => !hasKeys(each, now));
    if (withoutKeys.length < issuers.length || issuers.length === 0) return undefined;
    const tried = (each: TokenIssuer): number => failureOf(each, now)?.at.getTime() ?? 0;
    const next = withoutKeys.toSorted((a, b) => tried(a) - tried(b)).slice(0, probesAtOnce);
    // Rejections are ignored: too many requests wait already for the keys of that issuer.
    await wait(Promise.allSettled(next.map((each) => probe(each, now))).then(() => {}));
    const [failed, ...others] = issuers.map((each) =>
      hasKeys(each, now) ? undefined : failureOf(each, now),
    );
    if (!failed || others.includes(undefined)) return undefined;
    const more = others.length > 0 ? `, and ${others.length} more fail` : "";
    return `${failed.detail}${more}`;
  };
}

const hasKeys = ({ keys, review }: Pick<TokenIssuer, "keys" | "review">, now: Date): boolean =>
  review?.order !== "instead-of-keys" && (!keys.state || keys.state(now).keys.length > 0);

async function probe({ keys, review }: TokenIssuer, now: Date): Promise<void> {
  const ofKeys = review?.order === "instead-of-keys" ? undefined : keys.probe?.(now);
  await Promise.allSettled([ofKeys, review?.ask.probe?.(now)]);
}

/** Why the tokens of an issuer without keys cannot be verified; `undefined` if nothing has failed. A review can replace keys. */
function failureOf(
  { cluster, keys, review }: TokenIssuer,
  now: Date,
): { readonly at: Date; readonly detail: string } | undefined {
  if (review) {
    const failure = review.ask.failure?.();
    return failure && { ...failure, detail: `no token can be verified: ${failure.detail}` };
  }
  const failure = keys.state?.(now).failure;
  const detail = `no issuer's keys can be had: that of cluster ${cluster} ${failure?.detail}`;
  return failure && { at: failure.at, detail };
}
