/** What a name stands for at this moment. */
export type Secret =
  | { readonly kind: "certificate"; readonly chainPem: string; readonly privateKeyPem: string }
  | { readonly kind: "roots"; readonly pem: string; readonly crlFile?: string };

/** Secrets by name, for whoever hands them to a proxy. */
export interface SecretSource {
  /**
   * The secret of this name, as it is now; waits for an attempt to obtain it that is under way.
   *
   * @throws Error whose message says why there is none.
   */
  load(name: string): Promise<Secret>;
  /** Calls back after each change of the secret, until the function that it returns is called. */
  watch(name: string, onChange: () => void): () => void;
}
