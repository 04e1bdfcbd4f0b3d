/**
 * The reasons for which a certificate of this CA is revoked (RFC 5280 §5.3.1), with their codes. A hold is
 * not among them: a certificate that counts again would be an entry that leaves before its time.
 */
export const reasonCodes = {
  unspecified: 0,
  keyCompromise: 1,
  cACompromise: 2,
  affiliationChanged: 3,
  superseded: 4,
  cessationOfOperation: 5,
  privilegeWithdrawn: 9,
} as const;

export type RevocationReason = keyof typeof reasonCodes;

/** One entry of a CRL. */
export interface RevokedCertificate {
  /** The content octets of the INTEGER in lower-case hexadecimal. */
  readonly serialNumber: string;
  /** In whole seconds. */
  readonly revokedAt: Date;
  readonly reason: RevocationReason;
}
