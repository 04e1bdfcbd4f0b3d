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

  constructor(fault: IssuanceFault, detail: string, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.fault = fault;
  }
}
