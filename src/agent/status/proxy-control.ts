/** The proxy beside an agent, as the agent's status server sees and steers it. */
export interface ProxyControl {
  /** Why the proxy does not serve: one sentence for each reason. Never rejects. */
  faults(): Promise<readonly string[]>;
  /** The proxy's metrics in Prometheus' text format, empty if it gives none. Never rejects. */
  metrics(): Promise<string>;
  /** Has connections told to close. The proxy goes on, until it is told to end. */
  drain(): Promise<void>;
  /** Ends the proxy, and the agent with it, at once and without a drain. */
  quit(): void;
}
