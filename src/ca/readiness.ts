import type { Readiness } from "../foundation/events.ts";
import type { AuthorityView } from "./authority-view.ts";
import type { IssuanceLog } from "./issuance/issuance-log.ts";

/** The sources of reasons why a CA is not ready, apart from its authorities. */
export interface Hindrances {
  /** Absent where nothing is logged. */
  readonly issuanceLog?: Pick<IssuanceLog, "mode" | "look" | "refusal" | "troubles"> | undefined;
  /** Why no caller's token can be verified, one sentence. Absent in a program without callers. */
  readonly keyFault?: ((now: Date) => Promise<string | undefined>) | undefined;
  /** Whether callers find an open port. Present if the platform opens it itself. */
  readonly port?: (() => Readiness) | undefined;
  /** Why the lease of the KEK could not be renewed, one sentence. */
  readonly kekFault?: (() => string | undefined) | undefined;
  /** Why the store takes no record, one sentence, as far as this process knows. */
  readonly storeFault?: (() => string | undefined) | undefined;
}

/**
 * Whether a certificate could be issued now: an authority signs, verifiers have its root, a log that is required
 * takes the entry, the tokens of some issuer can be verified, and callers find an open port. `kekFault` and `storeFault`
 * are reasons only. The reasons do not repeat the view's own.
 */
export async function readinessIn(
  view: AuthorityView | undefined,
  { issuanceLog: log, keyFault, kekFault, storeFault, port }: Hindrances,
  now: Date,
): Promise<Readiness> {
  await log?.look?.(now);
  const isLogged = log?.mode !== "required" || log.refusal() === undefined;
  const signs = view?.issuer !== undefined && view.trustBundle.roots.length > 0;
  const withoutKeys = await keyFault?.(now);
  const { ready: isOpen, reasons: ofPort } = port?.() ?? { ready: true, reasons: [] };
  const reasons = [
    ...ofPort,
    ...(log?.troubles() ?? []),
    kekFault?.(),
    storeFault?.(),
    withoutKeys,
  ];
  return {
    ready: signs && isLogged && isOpen && withoutKeys === undefined,
    reasons: reasons.filter((reason) => reason !== undefined),
  };
}
