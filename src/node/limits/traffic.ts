/** What the peer of a connection has sent so far. */
export interface ReadOctets {
  readonly octetsRead: () => number;
  /** The octets read with what TLS adds to them. */
  readonly sealedOctetsRead: () => number;
}

/** Where a connection stood at the last sweep, and what has come since. */
export interface Traffic {
  /** All octets that had come by then. */
  readonly octets: number;
  /** The same with TLS around them. */
  readonly sealed: number;
  /** Those since then. */
  requests: number;
  /** Those since then. */
  controlFrames: number;
}

/** The most octets that a peer may send in a second, and for each request that came in it. */
const plausibleOctets = { aSecond: 256 * 1024, aRequest: 96 * 1024 };

/** Begins to count a connection's traffic from what it has sent so far. */
export const trafficOf = ({ octetsRead, sealedOctetsRead }: ReadOctets): Traffic => ({
  octets: octetsRead(),
  sealed: sealedOctetsRead(),
  requests: 0,
  controlFrames: 0,
});

/**
 * Finds whether a peer has sent more than its requests explain: octets, or TLS records. A record with one octet takes
 * OpenSSL as long as one with a thousand.
 *
 * @returns `undefined` for a peer that has not.
 */
export function abuseIn(
  { octetsRead, sealedOctetsRead }: ReadOctets,
  before: Traffic = { octets: 0, sealed: 0, requests: 0, controlFrames: 0 },
): "octets" | "records" | undefined {
  const plausible = plausibleOctets.aSecond + plausibleOctets.aRequest * before.requests;
  if (octetsRead() - before.octets > plausible) return "octets";
  return sealedOctetsRead() - before.sealed > plausible ? "records" : undefined;
}
