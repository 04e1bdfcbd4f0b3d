export interface Crls {
  readonly pem: string;
  /** Whether they are about leaves alone. Otherwise each CA on a path needs one. */
  readonly isOfLeaves: boolean;
}

export type Secret =
  | { readonly kind: "certificate"; readonly chainPem: string; readonly privateKeyPem: string }
  | {
      readonly kind: "roots";
      readonly pem: string;
      readonly revocation?: Crls;
    };

export interface SecretSource {
  /**
   * The current secret of this name, after a pending attempt to obtain it.
   *
   * @throws Error whose message says why there is no secret.
   */
  load(name: string): Promise<Secret>;
  /** Calls back after each change of the secret. @returns A function that ends the watch. */
  watch(name: string, onChange: () => void): () => void;
}

/** Istio's names for a proxy's own certificate and for the roots. */
export const defaultResource = "default";
export const rootResource = "ROOTCA";
