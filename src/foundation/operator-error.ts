/**
 * A failure that an operator can mend. The message is shown as it stands, without a stack: one sentence,
 * or one line for each fault. Every other error is a defect of the program.
 */
export class OperatorError extends Error {
  override readonly name = "OperatorError";
  readonly exitCode: number;

  /** @param options The exit code of the program that shows the message: scripts tell failures by it. */
  constructor(message: string, options: ErrorOptions & { readonly exitCode?: number } = {}) {
    super(message, options);
    this.exitCode = options.exitCode ?? 1;
  }
}
