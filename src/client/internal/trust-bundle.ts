import { Members } from "../../foundation/json-members.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import { rejectResponse } from "./client-error.ts";

/** What a program needs to verify other workloads of its trust domain. */
export interface TrustBundle {
  /** The roots as PEM blocks, for a TLS library. Never empty. */
  readonly pem: string;
  /** The keys that sign JWT-SVIDs: a JWK Set, for a library that verifies tokens. */
  readonly jwks: { readonly keys: readonly Members[] };
  /** Grows with each change (`spiffe_sequence`). */
  readonly sequence: number;
  /** When to ask again; from 10 seconds to an hour. */
  readonly refreshHintSeconds: number;
}

/**
 * Reads a SPIFFE bundle (SPIFFE Trust Domain and Bundle §4). A missing sequence is 0, a missing refresh hint 300 seconds.
 *
 * @throws ClientError `invalid-response`, also for a bundle without a root.
 */
export function parseTrustBundle(document: unknown): TrustBundle {
  const { keys, spiffe_sequence: sequence, spiffe_refresh_hint: hint } = Members.of(document);
  const jwks = Array.isArray(keys) ? keys.map(Members.of) : [];
  const roots = jwks.filter(({ use }) => use === "x509-svid").map(rootOf);
  if (roots.length === 0) rejectResponse("the trust bundle has no root");
  return {
    pem: roots.join(""),
    // JWT libraries know no `use` other than `sig` and `enc`, so it is left out.
    jwks: { keys: jwks.filter(({ use }) => use === "jwt-svid").map(({ use, ...key }) => key) },
    sequence: typeof sequence === "number" ? sequence : 0,
    refreshHintSeconds: Math.min(3600, Math.max(10, typeof hint === "number" ? hint : 300)),
  };
}

/** The certificate of a root, PEM: a JWK of an X.509 root has exactly one (SPIFFE X509-SVID §6.2). */
function rootOf({ x5c }: Members): string {
  const [base64, ...others]: unknown[] = Array.isArray(x5c) ? x5c : [];
  const der = typeof base64 === "string" && others.length === 0 ? Base64.parse(base64) : undefined;
  return der
    ? Pem.format("CERTIFICATE", der)
    : rejectResponse("a key of the trust bundle is no root");
}
