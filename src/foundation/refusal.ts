/** The check that a credential failed: evidence for the audit log, never for the wire. */
export type CredentialCheck =
  | "form"
  /** The check of the gateway's own credential. Its client is not to blame. */
  | "gateway"
  | "algorithm"
  | "key"
  | "signature"
  | "authority"
  | "renewal"
  | "revoked"
  | "impersonation"
  | "replay"
  | "review"
  | "issuer"
  | "audience"
  | "time"
  | "subject"
  | "cluster"
  | "namespace";

/** The rule that forbids a caller the identity it names. */
type ImpersonationRule =
  | "account"
  | "identity"
  | "trust-domain"
  | "namespace"
  | "pod"
  | "pod-uid"
  | "pod-account"
  | "node"
  | "instance"
  | "reach";

/** The rule that a subject's public key breaks. */
export type SubjectKeyFault =
  | "algorithm"
  | "curve"
  | "point"
  | "modulus"
  | "exponent"
  | "length"
  /** The key is of ML-DSA, with a parameter set with which the authority does not sign. */
  | "parameter-set";

/** The callers that share a quota of certificates: one caller alone, or all callers of an issuer. */
export type QuotaName = "caller" | "issuer";

/**
 * Everything Rampart refuses on purpose. Anything else that is thrown is a fault.
 *
 * A refusal carries bounded evidence only: names of algorithms and checks, seconds, identities that
 * were validated. Never a token, a key or a CSR.
 */
export type Refusal =
  | { reason: "credential-missing" }
  | { reason: "credential-rejected"; check: CredentialCheck }
  | { reason: "impersonation-denied"; rule: ImpersonationRule }
  | { reason: "signer-unknown" }
  | { reason: "signer-denied" }
  | { reason: "dns-name-denied" }
  | { reason: "tokens-off" }
  | { reason: "token-request-malformed" }
  | { reason: "audience-denied"; rule?: string }
  | { reason: "csr-malformed" }
  | { reason: "csr-signature-invalid" }
  | { reason: "csr-signature-algorithm-unacceptable" }
  | { reason: "subject-key-unacceptable"; fault: SubjectKeyFault }
  | { reason: "denied"; subject: string }
  | { reason: "policy-denied"; rule: string }
  | { reason: "quota-exceeded"; quota: QuotaName; retryAfterSeconds: number }
  | { reason: "lifetime-too-long"; requestedSeconds: bigint; maximumSeconds: number }
  | { reason: "request-abandoned" }
  | { reason: "no-signing-authority"; why: string }
  | { reason: "store-unreachable" }
  | { reason: "kek-unavailable" }
  | { reason: "log-unavailable"; why: string }
  | { reason: "too-many-waiting" }
  | { reason: "key-provider-unreachable"; issuer: string }
  | { reason: "cluster-unreachable"; cluster: string }
  | { reason: "cluster-busy"; cluster: string };
