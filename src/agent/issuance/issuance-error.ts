/** Why a certificate could not be had, or an answer was not used. */
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

/** An issuance that failed. The message is for the log and for status: nothing secret is in it. */
export class IssuanceError extends Error {
  override readonly name = "IssuanceError";
  readonly fault: IssuanceFault;

  constructor(fault: IssuanceFault, detail: string, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.fault = fault;
  }
}
