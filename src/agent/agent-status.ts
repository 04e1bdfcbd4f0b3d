import type { IdentityStatus } from "./kept-identity.ts";

/** One identity, as text. */
export interface IdentityReport {
  readonly spiffeId: string;
  readonly notAfter: string | undefined;
  readonly hoursLeft: number;
  readonly nextAttempt: string;
  readonly issuer: string | undefined;
  readonly lastError: string | undefined;
}

/** One root that is trusted. */
export interface RootReport {
  readonly subject: string;
  readonly notAfter: string;
  readonly sha256: string;
}

/** How an agent stands. */
export interface AgentStatus {
  readonly isReady: boolean;
  /** Why it is not ready. */
  readonly reasons: readonly string[];
  readonly identities: readonly IdentityReport[];
  readonly roots: readonly RootReport[];
  readonly bundle: {
    readonly sequence: number | undefined;
    readonly confirmedAt: string | undefined;
    readonly lastError: string | undefined;
  };
}

/** An identity's status as it is shown. */
export function reportIdentity(status: IdentityStatus, now: Date): IdentityReport {
  const left = (status.notAfter?.getTime() ?? 0) - now.getTime();
  return {
    spiffeId: status.spiffeId,
    notAfter: status.notAfter?.toISOString(),
    hoursLeft: Math.max(0, Math.round(left / 36_000) / 100),
    nextAttempt: status.nextAttempt.toISOString(),
    issuer: status.issuer,
    lastError: status.lastError,
  };
}
