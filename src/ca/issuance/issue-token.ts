import type { Caller } from "../../authn/caller.ts";
import { CaError } from "../../foundation/errors.ts";
import { Hex } from "../../pki/encoding/bytes.ts";
import { SerialNumber } from "../../pki/encoding/serial-number.ts";
import { JsonWebSignature } from "../../pki/jose/json-web-signature.ts";
import { type OpenTokenKey, TokenKey } from "../../pki/jose/token-key.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { addSeconds, earlier, Validity, wholeSeconds } from "../../pki/x509/validity.ts";
import type { AuthorityView } from "../authority-view.ts";
import { holderOf } from "./identity-policy.ts";
import { grantedTo } from "./internal/granted.ts";
import {
  type Issuance,
  type RequestContext,
  requireFirstUse,
  requireUndenied,
  requireWaitingCaller,
} from "./issue-certificate.ts";
import type { TokenPolicy, TokenProduct } from "./product.ts";
import { requireQuotas } from "./quotas.ts";

/** A caller's request for a token. Nobody has verified anything in it. */
export interface TokenRequest {
  readonly audiences: readonly string[];
  /** The requested lifetime; 0 or less for the default. */
  readonly requestedSeconds: bigint;
  /** The identity for which a node proxy or a signer asks; empty for the caller's own. */
  readonly spiffeId: string;
}

/** A JWT-SVID, as its caller gets it. */
export interface IssuedToken {
  readonly token: string;
  readonly spiffeId: SpiffeId;
  readonly expiresAt: Date;
}

const maximumAudiences = 8;
const audiencePattern = /^[\x21-\x7e]{1,255}$/;

/**
 * Issues a JWT-SVID (SPIFFE JWT-SVID §3) to an authenticated caller, by the rules of certificates: the same
 * identities, denials, quotas and log.
 *
 * @throws CaError for everything that is refused.
 */
export async function issueToken(
  issuance: Issuance,
  caller: Caller,
  request: TokenRequest,
  { now, signal, audit }: RequestContext,
): Promise<IssuedToken> {
  const { tokens, identityPolicy, quotas } = issuance;
  if (!tokens) throw new CaError({ reason: "tokens-off" }, "JWT_ISSUER is not set");
  const spiffeId = await identityPolicy(caller, request.spiffeId, now);
  audit.spiffeId = spiffeId;
  if (spiffeId !== caller.spiffeId) audit.impersonator = caller.spiffeId;
  const product = tokenFor(caller, request.audiences);
  const holder = holderOf(caller, spiffeId, product, { impersonatedIdentity: request.spiffeId });
  await requireUndenied(issuance, { caller, spiffeId, holder }, now);
  requireLife(request, tokens);
  if (quotas) await requireQuotas(quotas, caller, spiffeId, now);
  const { requestedSeconds } = request;
  const asked = { product, spiffeId, holder, requestedSeconds };
  const rules = { policy: issuance.policy, lifetimes: tokens };
  const { seconds, evidence } = grantedTo(caller, asked, rules, audit);
  const expiresAt = endOf(Number(seconds), caller, now);
  const view = await issuance.authorities.at(now);
  const key = requireKey(view, tokens, now);
  requireWaitingCaller(signal);
  await requireFirstUse(issuance.useToken, caller, now);
  const { audiences } = product;
  const jti = Hex.format(SerialNumber.random());
  const claims = { sub: spiffeId, aud: audiences, ...times(now, expiresAt), jti };
  const token = await JsonWebSignature.sign(key, { iss: tokens.issuer, ...claims });
  Object.assign(audit, { authority: key.id, serialNumber: jti, notAfter: expiresAt, audiences });
  if (issuance.issuanceLog) {
    const entry = {
      spiffeId,
      audiences: [...audiences],
      expiresAt: expiresAt.toISOString(),
      jti,
      key: key.id,
      algorithm: key.algorithm,
    };
    const issued = { caller, at: now, spiffeId, holder, evidence, token: entry };
    await issuance.issuanceLog.record(issued, { view, signal, audit });
  }
  audit.outcome = "issued";
  return { token, spiffeId, expiresAt };
}

/** Backdates `iat` as a leaf's notBefore: relying parties without a leeway have clocks that are behind, too. */
function times(now: Date, expiresAt: Date): { readonly iat: number; readonly exp: number } {
  const issuedAt = Math.floor(now.getTime() / 1000);
  const exp = Math.floor(expiresAt.getTime() / 1000);
  return { iat: issuedAt - Validity.leafBackdateSeconds(exp - issuedAt), exp };
}

/**
 * Decides the audiences of a caller's token by the table of its issuer. An audience that does not exist and one that
 * is forbidden get the same refusal.
 *
 * @throws CaError `token-request-malformed`, `audience-denied`
 */
function tokenFor({ issuer, provedBy }: Caller, requested: readonly string[]): TokenProduct {
  const audiences = [...new Set(requested)];
  const isWellFormed = audiences.every((audience) => audiencePattern.test(audience));
  if (!isWellFormed || audiences.length === 0 || requested.length > maximumAudiences) {
    const detail = `a token is for 1 to ${maximumAudiences} audiences of at most 255 printable characters`;
    throw new CaError({ reason: "token-request-malformed" }, detail);
  }
  const mayAddress = (issuer ?? provedBy)?.mayAddress;
  if (mayAddress && audiences.every(mayAddress)) return { kind: "token", audiences };
  throw new CaError({ reason: "audience-denied" }, "the caller may have no token for the audience");
}

/** Requires that the requested lifetime is at most `MAX_JWT_TTL`. @throws CaError `lifetime-too-long` */
function requireLife({ requestedSeconds }: TokenRequest, { maximumSeconds }: TokenPolicy): void {
  if (requestedSeconds <= BigInt(maximumSeconds)) return;
  const detail = "the caller asks for a longer life than MAX_JWT_TTL";
  throw new CaError({ reason: "lifetime-too-long", requestedSeconds, maximumSeconds }, detail);
}

/**
 * The end of a token's life. A caller with a certificate gets no token beyond `provedUntil`, so that a stolen certificate
 * is worth nothing after that instant.
 */
function endOf(seconds: number, { provedUntil }: Caller, now: Date): Date {
  const end = addSeconds(wholeSeconds(now), seconds);
  return provedUntil ? wholeSeconds(earlier(end, provedUntil)) : end;
}

/** Selects the key that signs tokens now. @throws CaError `no-signing-authority` */
function requireKey({ store }: AuthorityView, { algorithm }: TokenPolicy, now: Date): OpenTokenKey {
  const key = TokenKey.signingAt(store.tokenKeys, algorithm, now);
  if (key) return key;
  const why = "no key for tokens signs at this time: relying parties must know it first";
  throw new CaError({ reason: "no-signing-authority", why }, why);
}
