import type { CredentialCheck, Refusal } from "./refusal.ts";

/** A refusal on its way to the caller. Its detail is for the log; the caller gets a fixed sentence. */
export class CaError extends Error {
  override readonly name = "CaError";
  readonly refusal: Refusal;

  /**
   * @param detail One sentence that says what was wrong, without a secret in it. It reaches the audit log.
   * @param cause The foreign exception that this refusal stands for, if there was one.
   */
  constructor(refusal: Refusal, detail: string, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.refusal = refusal;
  }
}

/**
 * The message of whatever was thrown, with the code of the error behind it: `fetch failed (ECONNREFUSED)`.
 * Every log line and status speaks of an error in these words.
 */
export function messageOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return "something that is not an error was thrown";
  const { message } = thrown;
  // The message of an OperatorError names the cause itself.
  if (thrown instanceof OperatorError) return message;
  const code = codeBehind(thrown);
  return code === undefined || message.includes(code) ? message : `${message} (${code})`;
}

/**
 * The cause of a failed request, in words that cannot carry what was sent. The message of a foreign error
 * may quote a header, or a name in a certificate, which anybody can choose. Its code cannot, and neither can
 * a short sentence of plain words, the only form in which workerd says why a fetch failed.
 */
export function causeOf(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : "";
  const sentence = plainSentence.test(message) ? message.replace(/\.$/, "") : undefined;
  return codeBehind(thrown) ?? sentence ?? "no reason given";
}

const plainSentence = /^(?=.{1,80}$)[A-Za-z]{1,14}(?: [a-z]{1,14})+\.?$/;
const codePattern = /^[A-Z][A-Z0-9_/]{2,47}$/;
const deepestCause = 5;

/** The first code in a chain of causes, such as `ECONNREFUSED`, or the name of a time-out. */
function codeBehind(thrown: unknown): string | undefined {
  let error = thrown;
  for (let depth = 0; depth < deepestCause && error instanceof Error; depth++) {
    if ("code" in error && typeof error.code === "string" && codePattern.test(error.code)) {
      return error.code;
    }
    if (error.name === "TimeoutError") return error.name;
    error = error.cause;
  }
  return undefined;
}

/**
 * A failure that an operator can mend. Programs show its message without a stack: one sentence, or one line for each
 * fault. Every other error is a defect of the program.
 */
export class OperatorError extends Error {
  override readonly name = "OperatorError";
  readonly exitCode: number;

  /**
   * @param options `exitCode` is that of the program that shows the message, 1 by default: scripts tell failures apart
   *   by it.
   */
  constructor(message: string, options: ErrorOptions & { readonly exitCode?: number } = {}) {
    super(message, options);
    this.exitCode = options.exitCode ?? 1;
  }
}

/** A faulty configuration: one line for each fault. No line quotes a value that could be secret. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(faults.join("\n"));
    this.faults = faults;
  }
}

/** Creates, but does not throw, the refusal of a credential, with the check that failed; the caller never learns which. */
export function rejectCredential(check: CredentialCheck, detail: string, cause?: unknown): CaError {
  return new CaError({ reason: "credential-rejected", check }, detail, cause);
}
