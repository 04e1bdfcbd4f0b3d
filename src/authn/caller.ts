import { CaError } from "../foundation/errors.ts";
import type { HeaderFields } from "../foundation/headers.ts";
import type { BoundAccount } from "../kubernetes/pods.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { SpiffeId } from "../pki/spiffe-id.ts";
import type { IdentityProof } from "../pki/x509/leaf/identity-proof.ts";
import type { TokenIssuer } from "./token-issuer.ts";
import type { MappedSubject, TokenSubject } from "./token-subject.ts";

/** A caller's certificate, as logs name it. */
export interface CallerCertificate {
  /** The content octets of the INTEGER in hexadecimal. */
  readonly serialNumber: string;
  /** The id of the authority that signed it. */
  readonly authority: string;
}

/** The bearer of an authenticated token. */
export interface TokenBearer extends BoundAccount {
  /** Present where an entry of `subjects` gave the account. */
  readonly tokenSubject?: TokenSubject | undefined;
  /** The {@link MappedSubject.entryDigest} of that entry. */
  readonly entryDigest?: Bytes | undefined;
  /** Present if the token may be used only once: for one certificate, or one JWT-SVID. */
  readonly singleUse?: SingleUse | undefined;
}

/** A token that must be accepted once. */
export interface SingleUse {
  /** The hexadecimal SHA-256 of what its issuer signed, without the signature: a bearer can make a second valid one of ECDSA. */
  readonly digest: string;
  /** Its `exp`. */
  readonly until: Date;
}

/** The authenticated caller of a request. */
export interface Caller extends TokenBearer {
  readonly spiffeId: SpiffeId;
  /** The last token that authenticated the caller: its own, or the one with which its certificate was obtained. */
  readonly proof: IdentityProof;
  /** The certificate that authenticated the caller; absent if a token did. */
  readonly certificate?: CallerCertificate | undefined;
  /** When the token of `proof` becomes too old for renewals. Absent if a token is the credential. */
  readonly provedUntil?: Date | undefined;
  /** The issuer of the caller's token; absent for a certificate, because this CA itself signed that. */
  readonly issuer?: TokenIssuer | undefined;
  /**
   * The issuer of the last token behind the caller's certificate, or that of the gateway that names the
   * caller. Absent for a token.
   */
  readonly provedBy?: TokenIssuer | undefined;
  /** The issuers of which one authenticated the holder. Present if the certificate does not say which. */
  readonly mayBeProvedBy?: readonly TokenIssuer[] | undefined;
  /** The gateway that verified the caller's certificate, and forwarded it or only the SPIFFE ID in it. */
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

/** Authenticates callers. */
export const Authenticator = {
  /**
   * Tries the client certificate first, as istiod does, and the token if there is no good certificate.
   * When both fail, the refusal is the token's, unless the caller sent none.
   */
  certificateFirst:
    (verify: (der: Bytes, now: Date) => Promise<Caller>, byToken: Authenticator): Authenticator =>
    async (credentials, now) => {
      const { clientCertificate } = credentials;
      if (!clientCertificate) return byToken(credentials, now);
      try {
        return await verify(clientCertificate, now);
      } catch (error) {
        if (!(error instanceof CaError)) throw error;
        return byToken(credentials, now).catch((failure: unknown) => {
          throw isMissing(failure) ? error : failure;
        });
      }
    },
};

function isMissing(failure: unknown): boolean {
  return failure instanceof CaError && failure.refusal.reason === "credential-missing";
}

/** How a caller was authenticated. */
export const Caller = {
  /**
   * Whether claims of the caller's token may be unknown here, although rules and denials may depend on them: `true`
   * for a certificate whose issuer has a table of claims, and for a client of which a gateway forwards only the name.
   */
  hidesTokenSubject: ({ certificate, gateway, provedBy }: Caller): boolean =>
    certificate ? provedBy?.subjects !== undefined : gateway !== undefined,

  /** How a caller was authenticated: by its token, by its certificate, or by a certificate that a gateway forwards. */
  proofKindOf({ gateway, certificate }: Caller): "token" | "certificate" | "forwarded" {
    if (gateway) return "forwarded";
    return certificate ? "certificate" : "token";
  },
};
