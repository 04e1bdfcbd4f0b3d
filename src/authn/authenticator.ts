import type { Bytes } from "../pki/encoding/bytes.ts";
import type { Caller } from "./caller.ts";

/** All that a caller brings to prove who it is. */
export interface Credentials {
  readonly headers: Headers;
  /** DER of a leaf of which the platform has verified the chain and the possession of the key. */
  readonly clientCertificate?: Bytes | undefined;
}

/**
 * Proves who calls.
 *
 * @throws CaError `credential-missing`, `credential-rejected`, `key-provider-unreachable`,
 * `cluster-unreachable`.
 */
export type Authenticator = (credentials: Credentials, now: Date) => Promise<Caller>;
