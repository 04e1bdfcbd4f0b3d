import type { HeaderFields } from "../foundation/headers.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { Caller } from "./caller.ts";

/** The credentials of one request. */
export interface Credentials {
  readonly headers: HeaderFields;
  /** DER. The platform verified its chain, and the peer's possession of its key. */
  readonly clientCertificate?: Bytes | undefined;
}

/**
 * Proves who calls.
 *
 * @throws CaError `credential-missing`, `credential-rejected`, `key-provider-unreachable`,
 * `cluster-unreachable`, `cluster-busy`.
 */
export type Authenticator = (credentials: Credentials, now: Date) => Promise<Caller>;
