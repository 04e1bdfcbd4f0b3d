import * as z from "zod/mini";
import type { TokenPolicy } from "../ca/issuance/product.ts";
import { isSafeToFetch } from "../foundation/addresses.ts";
import { Duration, jsonText, parsedText } from "../foundation/text.ts";
import { TokenKey } from "../pki/jose/token-key.ts";
import { matching } from "./form.ts";
import type { IssuerTable } from "./issuer-table.ts";
import { digestPattern } from "./secrets.ts";
import { inceptionDate } from "./signer-table.ts";

/** The issuance log of a CA, and who may read it. */
export type LogConfiguration = Readonly<NonNullable<ReturnType<typeof logConfiguration>>>;

/** Visible ASCII without a plus and with no slash at its end: an origin also names a key (C2SP signed-note). */
const originPattern = /^[\x21-\x2a\x2c-\x7e]*[\x21-\x2a\x2c-\x2e\x30-\x7e]$/;

const logOrigin = z
  .string()
  .check(
    z.maxLength(200),
    z.regex(
      originPattern,
      "must be a name such as log.example.com/2026, without white space and +",
    ),
  );

const logInterval = z.pipe(
  Duration.seconds,
  z.int().check(z.minimum(1, "must be at least 1s"), z.maximum(3600, "must not exceed 1h")),
);

/** The length makes a token impossible to guess. */
const tokenPattern = /^[\x21-\x2b\x2d-\x7e]{32,512}$/;

const logReaders = parsedText((text) => {
  const tokens = text.split(",").map((token) => token.trim());
  return tokens.every((token) => tokenPattern.test(token)) ? tokens : undefined;
}, "must be bearer tokens of 32 characters or more, separated by commas");

/** The keys of a configuration for the issuance log. */
export const logKeys = {
  LOG_ORIGIN: z.optional(logOrigin),
  LOG_MODE: z._default(z.enum(["required", "best-effort"]), "required"),
  LOG_INCEPTION_DATE: z.optional(inceptionDate),
  LOG_INTERVAL: z.prefault(logInterval, "10s"),
  LOG_SHARDS: z._default(z.int().check(z.minimum(1), z.maximum(64)), 1),
  LOG_WITNESSES: z.optional(z.string().check(z.maxLength(64 * 1024))),
  LOG_TILES: z._default(z.enum(["private", "public"]), "private"),
  LOG_READERS: z.optional(logReaders),
};

type LogValues = z.infer<z.ZodMiniObject<typeof logKeys>>;

/**
 * Makes the configuration of the issuance log from its keys.
 * @returns `undefined` without `LOG_ORIGIN`: nothing is logged then.
 */
export function logConfiguration(
  form: LogValues & { readonly INCEPTION_DATE?: string | undefined },
) {
  if (form.LOG_ORIGIN === undefined) return undefined;
  return {
    /** The origin without the number of a shard. Each shard is a log of its own, whose origin ends with its number. */
    origin: form.LOG_ORIGIN,
    mode: form.LOG_MODE,
    inceptionDate: form.LOG_INCEPTION_DATE ?? form.INCEPTION_DATE,
    /** The time from one publication to the next. */
    intervalSeconds: form.LOG_INTERVAL,
    /** How many Durable Objects take entries; on Node every process is a shard. */
    shards: form.LOG_SHARDS,
    /** A tlog-policy: the witnesses that are asked for cosignatures. */
    witnesses: form.LOG_WITNESSES,
    /** Bearer tokens. */
    readers: form.LOG_READERS ?? [],
    /** Whether anybody may read the checkpoint and the hashes. Entries always need a token. */
    hasPublicTiles: form.LOG_TILES === "public",
  };
}

/** The two ways to let an operator see the console. Without either, a Worker has no console. */
export interface ConsoleConfiguration {
  readonly tokens: readonly ConsoleToken[];
  readonly access: AccessTable | undefined;
}

/** A token of an operator: itself, or its SHA-256 in hexadecimal. */
type ConsoleToken = { readonly token: string } | { readonly sha256: string };

const maximumTokens = 32;

const consoleTokens = parsedText((text) => {
  const parsed = text.split(",").map((each) => parseToken(each.trim()));
  const known = parsed.filter((each) => each !== undefined);
  return known.length === parsed.length && known.length <= maximumTokens ? known : undefined;
}, "must be tokens of 32 characters or more, or sha256:<hexadecimal> of them, separated by commas");

function parseToken(text: string): ConsoleToken | undefined {
  const [, sha256] = digestPattern.exec(text) ?? [];
  if (sha256 !== undefined) return { sha256 };
  // A digest with a typing error must not pass for a token: anybody could read that in the configuration.
  return tokenPattern.test(text) && !/^sha256:/i.test(text) ? { token: text } : undefined;
}

const consoleAccess = z.strictObject({
  /** The team's origin: the issuer of its tokens. */
  team: matching(
    /^https:\/\/[a-z0-9-]+(?:\.[a-z0-9-]+)+$/,
    "must be the team's origin, such as https://example.cloudflareaccess.com",
  ),
  /** The application's AUD tag. */
  audience: matching(/^[\x21-\x7e]{1,256}$/, "must be the AUD tag of the application"),
});

/** `CONSOLE_ACCESS`, checked: an application of Cloudflare Access. */
type AccessTable = z.output<typeof consoleAccess>;

/** The URL of the JWK Set of Cloudflare Access, whose keys sign tokens, at the origin of a team. */
export const accessKeysUrl = ({ team }: AccessTable): string => `${team}/cdn-cgi/access/certs`;

/** The keys of a configuration for the console. */
export const consoleKeys = {
  CONSOLE_TOKENS: z.optional(consoleTokens),
  CONSOLE_ACCESS: z.optional(z.pipe(jsonText, consoleAccess)),
};

/**
 * Makes the configuration of the console from its keys.
 * @returns `undefined` if neither tokens nor Cloudflare Access let anybody in.
 */
export function consoleConfiguration(
  form: z.infer<z.ZodMiniObject<typeof consoleKeys>>,
): ConsoleConfiguration | undefined {
  const { CONSOLE_TOKENS: tokens = [], CONSOLE_ACCESS: access } = form;
  return tokens.length > 0 || access ? { tokens, access } : undefined;
}

/** `JWT_ISSUER` must be in one spelling, because relying parties compare it byte for byte. */
const tokenIssuer = z.string().check(
  z.maxLength(255),
  z.refine(
    (url) => isSafeToFetch(url) && issuerPattern.test(url) && isOneSpelling(url),
    "must be an https URL in its usual spelling, without a query and without a slash at its end",
  ),
);

/** The form of `JWT_ISSUER`. Its path becomes that of the documents. */
const issuerPattern = /^https?:\/\/[^/?#]+(?:\/[A-Za-z0-9._~-]+)*$/;

const isOneSpelling = (url: string): boolean => [url, `${url}/`].includes(new URL(url).href);

const tokenLifetime = z.pipe(
  Duration.seconds,
  z
    .int()
    .check(
      z.minimum(60, "must be at least 1m"),
      z.maximum(TokenKey.longestTokenSeconds, "must not exceed 1h"),
    ),
);

/** The keys of a configuration for JWT-SVIDs. */
export const jwtKeys = {
  JWT_ISSUER: z.optional(tokenIssuer),
  JWT_ALGORITHM: z._default(z.enum(["ES256", "RS256"]), "ES256"),
  DEFAULT_JWT_TTL: z.optional(tokenLifetime),
  MAX_JWT_TTL: z.prefault(tokenLifetime, "1h"),
};

type JwtValues = z.infer<z.ZodMiniObject<typeof jwtKeys>>;

const usualTokenSeconds = 300;

/**
 * Makes the policy of JWT-SVIDs from its keys.
 * @returns `undefined` without `JWT_ISSUER`: no caller gets a token then.
 */
export function tokenPolicy(form: JwtValues): TokenPolicy | undefined {
  if (form.JWT_ISSUER === undefined) return undefined;
  return {
    issuer: form.JWT_ISSUER,
    algorithm: form.JWT_ALGORITHM,
    defaultSeconds: form.DEFAULT_JWT_TTL ?? Math.min(usualTokenSeconds, form.MAX_JWT_TTL),
    maximumSeconds: form.MAX_JWT_TTL,
  };
}

type TokenForm = JwtValues & { readonly ISSUERS: readonly IssuerTable[] };

/** The contradictions about JWT-SVIDs. A CA that accepted its own tokens as credentials would renew them without an end. */
export function tokenFaults(form: TokenForm): string[] {
  const { JWT_ISSUER, DEFAULT_JWT_TTL = 0, MAX_JWT_TTL, ISSUERS } = form;
  const isOwn = ({ issuer }: IssuerTable): boolean => issuer.replace(/\/+$/, "") === JWT_ISSUER;
  const tooLong = DEFAULT_JWT_TTL > MAX_JWT_TTL;
  return [
    ...(tooLong ? ["DEFAULT_JWT_TTL: must not exceed MAX_JWT_TTL"] : []),
    ...ISSUERS.flatMap((table, i) => {
      if (isOwn(table)) return [`ISSUERS[${i}].issuer: must not be JWT_ISSUER, which is this CA`];
      const isIdle = table.jwt_audiences !== undefined && JWT_ISSUER === undefined;
      return isIdle ? [`ISSUERS[${i}].jwt_audiences: has no effect without JWT_ISSUER`] : [];
    }),
  ];
}

/**
 * Finds a configuration that has `JWT_ISSUER` but no issuer whose callers may have tokens.
 * @returns One sentence, or none.
 */
export const idleTokens = ({ JWT_ISSUER, ISSUERS }: TokenForm): string[] =>
  JWT_ISSUER === undefined || ISSUERS.some(({ jwt_audiences }) => jwt_audiences)
    ? []
    : ["JWT_ISSUER: nobody may have a JWT-SVID until a table of ISSUERS has jwt_audiences"];
