import type { Bytes } from "../pki/encoding/bytes.ts";

/** The request of this CA to a CA upstream. */
export interface UpstreamRequest {
  /** PKCS#10, DER. */
  readonly csr: Bytes;
  /** How long the intermediate shall live. The CA upstream may decide on less. */
  readonly lifetimeSeconds: number;
  /** The roots of the store, DER: a key in a key service may have renewed its own. */
  readonly knownRoots?: readonly Bytes[];
}

/** The certificates of an answer, DER. Nobody has looked at any of them. */
export interface UpstreamAnswer {
  /** The intermediate first, then what is between it and its root. */
  readonly chain: readonly Bytes[];
  readonly roots: readonly Bytes[];
}

/**
 * A CA that certifies intermediates by itself. It may hang, refuse, or answer anything: an implementation
 * bounds time and size, and authenticates the server, whose roots the mesh will trust.
 *
 * @throws UpstreamError
 */
export type UpstreamAuthority = (request: UpstreamRequest) => Promise<UpstreamAnswer>;

/** Why a CA upstream gave no intermediate that could be installed. It never holds a credential or a CSR. */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
}
