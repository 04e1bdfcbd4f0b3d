type LogFault =
  /** The octets or the text are malformed. */
  | "form"
  /** The checkpoint is another log's. */
  | "origin"
  /** None of the expected keys has signed, or the signature of one is wrong. */
  | "signature"
  /** Fewer witnesses cosigned than the policy demands. */
  | "quorum"
  /** The proof does not lead from the entry to the root. */
  | "inclusion"
  /** The tree is not an extension of the earlier one. */
  | "consistency"
  /** An object that the checkpoint commits to is missing. */
  | "missing"
  /** An object has other octets than the tree commits to. */
  | "content";

/** Data of a log failed a check, which {@link LogError.fault} names. */
export class LogError extends Error {
  override readonly name = "LogError";
  readonly fault: LogFault;

  constructor(fault: LogFault, detail: string, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.fault = fault;
  }
}
