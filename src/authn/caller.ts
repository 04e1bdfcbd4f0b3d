import { CaError } from "../foundation/errors.ts";
import type { HeaderFields } from "../foundation/headers.ts";
import type { BoundAccount } from "../kubernetes/pods.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { SpiffeId } from "../pki/spiffe-id.ts";
import type { IdentityProof } from "../pki/x509/leaf/identity-proof.ts";
import type { TokenIssuer } from "./token-issuer.ts";

/** A caller's certificate, as logs name it. */
export interface CallerCertificate {
  /** The content octets of the INTEGER in hexadecimal. */
  readonly serialNumber: string;
  /** The id of the authority that signed it. */
  readonly authority: string;
}

/** The caller of a request, as an authenticator proved it. */
export interface Caller extends BoundAccount {
  readonly spiffeId: SpiffeId;
  /** The last token that proved who the caller is: its own, or the one behind its certificate. */
  readonly proof: IdentityProof;
  /** The certificate by which the caller proved itself. Absent where that was a token. */
  readonly certificate?: CallerCertificate | undefined;
  /** When that token becomes too old for renewals. Absent where the token itself is the credential. */
  readonly provedUntil?: Date | undefined;
  /** The issuer that vouches for the caller. Absent for a certificate: this CA itself signed that. */
  readonly issuer?: TokenIssuer | undefined;
  /**
   * The issuer of the last token behind the caller's certificate, or that of the gateway that names the
   * caller. Absent for a token.
   */
  readonly provedBy?: TokenIssuer | undefined;
  /** The issuers of which any may have vouched for a certificate that does not say which. */
  readonly mayBeProvedBy?: readonly TokenIssuer[] | undefined;
  /** The gateway that verified the caller's certificate and forwarded it, or its name alone. */
  readonly gateway?: Caller | undefined;
}

/** The credentials of one request. */
interface Credentials {
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

/**
 * Tries the client certificate first, as istiod does, and the token if there is no good certificate.
 * When both fail, the refusal is the token's, unless the caller sent none.
 */
export function certificateFirst(
  byCertificate: Authenticator,
  byToken: Authenticator,
): Authenticator {
  const byEither: Authenticator = async (credentials, now) => {
    try {
      return await byCertificate(credentials, now);
    } catch (error) {
      if (!(error instanceof CaError)) throw error;
      return byToken(credentials, now).catch((failure: unknown) => {
        throw isMissing(failure) ? error : failure;
      });
    }
  };
  return (credentials, now) =>
    (credentials.clientCertificate ? byEither : byToken)(credentials, now);
}

function isMissing(failure: unknown): boolean {
  return failure instanceof CaError && failure.refusal.reason === "credential-missing";
}
