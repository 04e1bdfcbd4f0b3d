/** A text, and the name by which the operator knows it: `cacerts/ca-cert.pem`. */
export interface Source {
  readonly name: string;
  readonly text: string;
}

/**
 * The certificates and the key of a plugged-in CA, from any of Istio's layouts, not verified yet. No text
 * is empty.
 */
export interface PluggedInMaterial {
  /** The authority's certificate first; the certificates after it belong to the chain. */
  readonly certificate: Source;
  readonly privateKey: Source;
  /** Certificates between the authority and its root, in any number of files; not trusted. */
  readonly chain: readonly Source[];
  /** The roots that the operator trusts; empty only where the authority may be its own root. */
  readonly roots: readonly Source[];
  /** Istio's `ca-crl.pem`, which Rampart does not import. */
  readonly revocationList?: Source;
}
