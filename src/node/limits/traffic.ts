/** What the peer of a connection has sent so far. */
export interface ReadOctets {
  readonly octetsRead: () => number;
  /** The same with what TLS adds to them. */
  readonly sealedOctetsRead: () => number;
}

/** The traffic of a connection since the last sweep. */
export interface Traffic {
  readonly octets: number;
  readonly sealed: number;
  requests: number;
  vain: number;
}

/** The most octets that a peer may send in a second, and for each request that came in it. */
const plausibleOctets = { aSecond: 256 * 1024, aRequest: 96 * 1024 };

export const trafficOf = ({ octetsRead, sealedOctetsRead }: ReadOctets): Traffic => ({
  octets: octetsRead(),
  sealed: sealedOctetsRead(),
  requests: 0,
  vain: 0,
});

/**
 * What a peer has sent more of than its requests explain: octets, or records of TLS, of which OpenSSL takes as long for
 * one octet as for a thousand.
 */
export function abuseIn(
  { octetsRead, sealedOctetsRead }: ReadOctets,
  before: Traffic = { octets: 0, sealed: 0, requests: 0, vain: 0 },
): "octets" | "records" | undefined {
  const plausible = plausibleOctets.aSecond + plausibleOctets.aRequest * before.requests;
  if (octetsRead() - before.octets > plausible) return "octets";
  return sealedOctetsRead() - before.sealed > plausible ? "records" : undefined;
}
