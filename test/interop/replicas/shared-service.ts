/** A service that keeps the records of several replicas, as a story uses it. */
export interface SharedService {
  readonly port: number;
  /** The keys of `rampart.toml` for a process that reaches it by another port. */
  readonly keysBehind: (port: number) => Readonly<Record<string, string>>;
  /** The variables of such a process: the KEK, and credentials that no file has. */
  readonly environment: Readonly<Record<string, string>> & { readonly KEK: string };
  /** Ends the service, and starts it again some seconds later with all it had. */
  readonly restart: () => Promise<void>;
}
