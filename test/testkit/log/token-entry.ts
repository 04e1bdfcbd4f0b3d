import type { TokenEntry } from "../../../src/ca/issuance/log-entry.ts";

/** An entry of the log about a JWT-SVID. */
export const tokenEntry = (
  changes: Partial<TokenEntry> = {},
  token: Partial<TokenEntry["token"]> = {},
): TokenEntry => ({
  kind: "token",
  at: "2026-11-21T12:00:00.250Z",
  proof: "token",
  cluster: "Kubernetes",
  ...changes,
  token: {
    spiffeId: "spiffe://cluster.local/ns/shop/sa/cart",
    audiences: ["sts.amazonaws.com"],
    expiresAt: "2026-11-21T12:05:00.000Z",
    jti: "0123456789abcdef0123456789abcdef01",
    key: "k1",
    algorithm: "ES256",
    ...token,
  },
});
