/** Why the CA issued no certificate, or why its answer was refused. */
export type IssuanceFault =
  | "answer-empty"
  | "answer-malformed"
  | "key-mismatch"
  | "identity-mismatch"
  | "chain-broken"
  | "validity-unacceptable"
  | "authority-withdrawn"
  | "authority-unreachable"
  | "authority-refused"
  | "token-unusable";

/** A failed issuance. Its message reaches the log and the status, and holds no secret. */
export class IssuanceError extends Error {
  override readonly name = "IssuanceError";
  readonly fault: IssuanceFault;
  /** The wait that the CA asks for, as it says it; 0 without one. */
  readonly retryAfterSeconds: number;

  constructor(fault: IssuanceFault, detail: string, cause?: unknown, retryAfterSeconds = 0) {
    super(detail, cause === undefined ? undefined : { cause });
    this.fault = fault;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
