import * as z from "zod";
import { parseServiceAccount, type ServiceAccount } from "../pki/spiffe-id.ts";
import type { BoundObject } from "./caller.ts";
import { rejectCredential } from "./credential-rejection.ts";
import type { TrustedIssuer } from "./trusted-issuer.ts";

/** How far in the future `nbf` and `iat` may lie, for issuers whose clocks are ahead. `exp` gets nothing. */
export const leewaySeconds = 60;

/** What a ServiceAccount token says of its bearer. */
export interface ServiceAccountClaims {
  readonly account: ServiceAccount;
  readonly pod?: BoundObject;
  readonly node?: BoundObject;
}

const instant = z.number().min(0).max(253402300799);
const text = z.string().max(1024);
const boundObject = z.object({ name: text, uid: text });

const claimsForm = z.object({
  aud: z.union([text.transform((audience) => [audience]), z.array(text).max(64)]),
  exp: instant,
  nbf: instant.optional(),
  iat: instant.optional(),
  sub: text,
  "kubernetes.io": z
    .object({
      namespace: text,
      serviceaccount: z.object({ name: text }),
      pod: boundObject.optional(),
      node: boundObject.optional(),
    })
    .optional(),
});
type Claims = z.infer<typeof claimsForm>;

/**
 * Applies an issuer's rules to the claims of a token whose signature was verified.
 *
 * @throws CaError `credential-rejected` (`form`, `time`, `audience`, `subject`, `namespace`).
 */
export function parseServiceAccountClaims(
  verified: unknown,
  issuer: TrustedIssuer,
  now: Date,
): ServiceAccountClaims {
  const parsed = claimsForm.safeParse(verified);
  if (!parsed.success) {
    const claim = parsed.error.issues[0]?.path.join(".");
    throw rejectCredential("form", `the token's claims are not a ServiceAccount's: ${claim}`);
  }
  const claims = parsed.data;
  requireTime(claims, now);
  if (!claims.aud.some((audience) => issuer.audiences.includes(audience))) {
    throw rejectCredential("audience", "the token is meant for another audience");
  }
  const account = parseSubject(claims);
  if (!issuer.mayVouchFor(account)) {
    throw rejectCredential("namespace", "the issuer may not vouch for this namespace");
  }
  const { pod, node } = claims["kubernetes.io"] ?? {};
  return { account, ...(pod && { pod }), ...(node && { node }) };
}

function requireTime(claims: Claims, now: Date): void {
  const seconds = now.getTime() / 1000;
  if (claims.exp <= seconds) throw rejectCredential("time", "the token has expired");
  const latest = seconds + leewaySeconds;
  if ((claims.nbf ?? 0) > latest) throw rejectCredential("time", "the token is not valid yet");
  if ((claims.iat ?? 0) > latest) throw rejectCredential("time", "the token is from the future");
}

/** `system:serviceaccount:<namespace>:<name>`, exactly, and the same as the `kubernetes.io` claims. */
function parseSubject(claims: Claims): ServiceAccount {
  const [system, kind, namespace = "", name = "", ...rest] = claims.sub.split(":", 5);
  const account = parseServiceAccount(namespace, name);
  if (system !== "system" || kind !== "serviceaccount" || rest.length > 0 || !account) {
    throw rejectCredential("subject", "the token's subject is no ServiceAccount");
  }
  const bound = claims["kubernetes.io"];
  if (bound && (bound.namespace !== namespace || bound.serviceaccount.name !== name)) {
    throw rejectCredential("subject", "the token's subject contradicts its kubernetes.io claims");
  }
  return account;
}
