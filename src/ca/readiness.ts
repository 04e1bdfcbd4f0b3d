import type { Readiness } from "../foundation/events.ts";
import type { AuthorityView } from "./authority-view.ts";
import type { IssuanceLog } from "./issuance/issuance-log.ts";

/** What may keep a CA from its work beside its authorities. */
export interface Hindrances {
  /** Absent where nothing is logged. */
  readonly issuanceLog?: Pick<IssuanceLog, "mode" | "refusal" | "troubles"> | undefined;
  /** Why no caller's token can be verified, one sentence. Absent where no caller asks. */
  readonly keyFault?: ((now: Date) => Promise<string | undefined>) | undefined;
  /** Why the store takes no record, one sentence, as far as this process knows. */
  readonly storeFault?: (() => string | undefined) | undefined;
}

/**
 * Whether a certificate could be issued now: an authority signs, verifiers have its root, a log that is required
 * takes the entry, and the tokens of some issuer can be verified. The reasons are those beside the view's own.
 */
export async function readinessIn(
  view: AuthorityView | undefined,
  { issuanceLog: log, keyFault, storeFault }: Hindrances,
  now: Date,
): Promise<Readiness> {
  const isLogged = log?.mode !== "required" || log.refusal() === undefined;
  const signs = view?.issuer !== undefined && view.trustBundle.roots.length > 0;
  const withoutKeys = await keyFault?.(now);
  const reasons = [...(log?.troubles() ?? []), storeFault?.(), withoutKeys];
  return {
    ready: signs && isLogged && withoutKeys === undefined,
    reasons: reasons.filter((reason) => reason !== undefined),
  };
}
