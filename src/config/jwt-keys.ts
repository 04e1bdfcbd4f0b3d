import * as z from "zod/mini";
import type { TokenPolicy } from "../ca/issuance/product.ts";
import { durationSeconds, isSafeToFetch } from "../foundation/text.ts";
import { longestTokenSeconds } from "../pki/jose/token-key.ts";
import type { IssuerTable } from "./issuer-table.ts";

/** Relying parties compare it byte for byte, so it has one spelling. */
const issuer = z.string().check(
  z.maxLength(255),
  z.refine(
    (url) => isSafeToFetch(url) && form.test(url) && isOneSpelling(url),
    "must be an https URL in its usual spelling, without a query and without a slash at its end",
  ),
);

/** Its path becomes that of the documents. */
const form = /^https?:\/\/[^/?#]+(?:\/[A-Za-z0-9._~-]+)*$/;

const isOneSpelling = (url: string): boolean => [url, `${url}/`].includes(new URL(url).href);

const lifetime = z.pipe(
  durationSeconds,
  z
    .int()
    .check(
      z.minimum(60, "must be at least 1m"),
      z.maximum(longestTokenSeconds, "must not exceed 1h"),
    ),
);

/** The keys about JWT-SVIDs, as operators write them. */
export const jwtKeys = {
  JWT_ISSUER: z.optional(issuer),
  JWT_ALGORITHM: z._default(z.enum(["ES256", "RS256"]), "ES256"),
  DEFAULT_JWT_TTL: z.optional(lifetime),
  MAX_JWT_TTL: z.prefault(lifetime, "1h"),
};

/** The values of these keys. */
type JwtValues = z.infer<z.ZodMiniObject<typeof jwtKeys>>;

const usualSeconds = 300;

/** @returns `undefined` without an issuer: then nobody gets a token. */
export function tokenPolicy(form: JwtValues): TokenPolicy | undefined {
  if (form.JWT_ISSUER === undefined) return undefined;
  return {
    issuer: form.JWT_ISSUER,
    algorithm: form.JWT_ALGORITHM,
    defaultSeconds: form.DEFAULT_JWT_TTL ?? Math.min(usualSeconds, form.MAX_JWT_TTL),
    maximumSeconds: form.MAX_JWT_TTL,
  };
}

type TokenForm = JwtValues & { readonly ISSUERS: readonly IssuerTable[] };

/** A CA that took its own tokens for credentials would renew them without an end. */
export function tokenFaults({
  JWT_ISSUER,
  DEFAULT_JWT_TTL,
  MAX_JWT_TTL,
  ISSUERS,
}: TokenForm): string[] {
  const isOwn = ({ issuer }: IssuerTable): boolean => issuer.replace(/\/+$/, "") === JWT_ISSUER;
  const tooLong = (DEFAULT_JWT_TTL ?? 0) > MAX_JWT_TTL;
  return [
    ...(tooLong ? ["DEFAULT_JWT_TTL: must not exceed MAX_JWT_TTL"] : []),
    ...ISSUERS.flatMap((table, i) => {
      if (isOwn(table)) return [`ISSUERS[${i}].issuer: must not be JWT_ISSUER, which is this CA`];
      const isIdle = table.jwt_audiences !== undefined && JWT_ISSUER === undefined;
      return isIdle ? [`ISSUERS[${i}].jwt_audiences: has no effect without JWT_ISSUER`] : [];
    }),
  ];
}

/** @returns One sentence where the CA has an issuer of tokens and nobody may have one. */
export const idleTokens = ({ JWT_ISSUER, ISSUERS }: TokenForm): string[] =>
  JWT_ISSUER === undefined || ISSUERS.some(({ jwt_audiences }) => jwt_audiences)
    ? []
    : ["JWT_ISSUER: nobody may have a JWT-SVID until a table of ISSUERS has jwt_audiences"];
