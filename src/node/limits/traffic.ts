/** What the peer of a connection has sent so far. */
export interface ReadOctets {
  readonly octetsRead: () => number;
  /** The octets read, with TLS's overhead. */
  readonly sealedOctetsRead: () => number;
}

/** How much a connection had sent at the last sweep, and what has come since. */
export interface Traffic {
  /** All octets up to the last sweep. */
  readonly octets: number;
  /** The same with TLS's overhead. */
  readonly sealed: number;
  /** Requests since the last sweep. */
  requests: number;
  /** Control frames since the last sweep. */
  controlFrames: number;
}

/** The most octets that a peer plausibly sends in a second, and in addition for each request in that second. */
const plausibleOctets = { aSecond: 256 * 1024, aRequest: 96 * 1024 };

/** Begins a new count of a connection's traffic, after what it has sent so far. */
export const trafficOf = ({ octetsRead, sealedOctetsRead }: ReadOctets): Traffic => ({
  octets: octetsRead(),
  sealed: sealedOctetsRead(),
  requests: 0,
  controlFrames: 0,
});

/**
 * Finds whether a peer has sent more than its requests explain: octets, or TLS records. A record with one octet costs
 * OpenSSL as much as one with a thousand.
 *
 * @returns What is too much; `undefined` for nothing.
 */
export function abuseIn(
  { octetsRead, sealedOctetsRead }: ReadOctets,
  before: Traffic = { octets: 0, sealed: 0, requests: 0, controlFrames: 0 },
): "octets" | "records" | undefined {
  const plausible = plausibleOctets.aSecond + plausibleOctets.aRequest * before.requests;
  if (octetsRead() - before.octets > plausible) return "octets";
  return sealedOctetsRead() - before.sealed > plausible ? "records" : undefined;
}
