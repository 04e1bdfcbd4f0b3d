/** A configuration that cannot be served: one line per fault, none with a value that could be secret. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(faults.join("\n"));
    this.faults = faults;
  }
}
