/** A search was refused: the query is too long or can match nothing, other searches run, or the log cannot be read. */
export class LogSearchError extends Error {
  readonly reason: "query" | "busy" | "unreadable";

  constructor(reason: LogSearchError["reason"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}
