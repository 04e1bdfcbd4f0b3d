import { rejectCredential } from "../credential-rejection.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";
import type { JsonWebSignature } from "./json-web-signature.ts";

/** The issuer that a token names, byte for byte; whether it is the token's is yet to be proved. */
export function requireIssuer(
  { claims }: JsonWebSignature,
  byName: ReadonlyMap<string, TrustedIssuer>,
): TrustedIssuer {
  const { iss } = claims;
  const issuer = typeof iss === "string" ? byName.get(iss) : undefined;
  if (issuer) return issuer;
  throw rejectCredential("issuer", `the token is of an unknown issuer: ${quoted(iss)}`);
}

/**
 * The header is a claim, not a choice: absent, or a name of the one cluster that the token's issuer
 * stands for. istiod lets it choose which cluster judges the token.
 */
export function requireCluster(clusterId: string | null, issuer: TrustedIssuer): void {
  const { cluster, clusterAliases } = issuer;
  if (!clusterId || clusterId === cluster || clusterAliases.includes(clusterId)) return;
  const claimed = `${quoted(clusterId)}, and ${issuer.issuer} stands for ${cluster}`;
  throw rejectCredential("cluster", `the caller claims the cluster ${claimed}`);
}

/** A caller's own word, for the log: short, on one line, and marked as a quotation. */
function quoted(claim: unknown): string {
  return typeof claim === "string" ? JSON.stringify(claim.slice(0, 80)) : "not a text";
}
