/** A text as it was found, and what to call it in front of the operator: `cacerts/ca-cert.pem`. */
export interface Source {
  readonly name: string;
  readonly text: string;
}

/**
 * A CA's certificates and key as people keep them, read and not yet judged: whichever of Istio's
 * layouts they came in. Every text is PEM and holds something.
 */
export interface PluggedInMaterial {
  /** The authority's certificate first; what follows it belongs to the chain. */
  readonly certificate: Source;
  readonly privateKey: Source;
  /** Certificates between the authority and its root, in any number of files. Proposes, is not trusted. */
  readonly chain: readonly Source[];
  /** What the operator trusts. Empty only where the authority may be its own root. */
  readonly roots: readonly Source[];
  /** Istio's `ca-crl.pem`, which has no place in Rampart. */
  readonly revocationList?: Source;
}
