/** A search that was not done, with its reason: the query is too long, others search, the log cannot be read. */
export class LogSearchError extends Error {
  readonly reason: "query" | "busy" | "unreadable";

  constructor(reason: LogSearchError["reason"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}
