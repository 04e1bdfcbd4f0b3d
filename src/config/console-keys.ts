import * as z from "zod/mini";
import { jsonText } from "../foundation/json.ts";
import { parsedText } from "../foundation/text.ts";

/** The two ways to let an operator see the console. Without either, a Worker has no console. */
export interface ConsoleConfiguration {
  readonly tokens: readonly ConsoleToken[];
  readonly access: AccessTable | undefined;
}

/** A token of an operator: itself, or its SHA-256 in hexadecimal. */
export type ConsoleToken = { readonly token: string } | { readonly sha256: string };

/** Long enough that nobody guesses one. */
const tokenForm = /^[\x21-\x2b\x2d-\x7e]{32,512}$/;
const digestForm = /^sha256:([0-9a-f]{64})$/;
const maximumTokens = 32;

const tokens = parsedText((text) => {
  const parsed = text.split(",").map((each) => parseToken(each.trim()));
  const known = parsed.filter((each) => each !== undefined);
  return known.length === parsed.length && known.length <= maximumTokens ? known : undefined;
}, "must be tokens of 32 characters or more, or sha256:<hexadecimal> of them, separated by commas");

/** Whether a value of `CONSOLE_TOKENS` has digests alone, which are no secret and may stand in a file. */
export const areDigests = (value: unknown): boolean =>
  typeof value === "string" && value.split(",").every((each) => digestForm.test(each.trim()));

function parseToken(text: string): ConsoleToken | undefined {
  const [, sha256] = digestForm.exec(text) ?? [];
  if (sha256 !== undefined) return { sha256 };
  // A digest with a typing error must not become a token that anybody reads in the configuration.
  return tokenForm.test(text) && !/^sha256:/i.test(text) ? { token: text } : undefined;
}

const access = z.strictObject({
  /** The team's origin: the issuer of its tokens. */
  team: z
    .string()
    .check(
      z.regex(
        /^https:\/\/[a-z0-9-]+(?:\.[a-z0-9-]+)+$/,
        "must be the team's origin, such as https://example.cloudflareaccess.com",
      ),
    ),
  /** The application's AUD tag. */
  audience: z
    .string()
    .check(z.regex(/^[\x21-\x7e]{1,256}$/, "must be the AUD tag of the application")),
});

/** `CONSOLE_ACCESS`, checked: an application of Cloudflare Access. */
export type AccessTable = z.output<typeof access>;

/** The URL of the keys with which Access signs a team's tokens. */
export const accessKeysUrl = ({ team }: AccessTable): string => `${team}/cdn-cgi/access/certs`;

/** The keys about the console, as operators write them. */
export const consoleKeys = {
  CONSOLE_TOKENS: z.optional(tokens),
  CONSOLE_ACCESS: z.optional(z.pipe(jsonText, access)),
};

/** @returns `undefined` where nobody is let in. */
export function consoleConfiguration({
  CONSOLE_TOKENS,
  CONSOLE_ACCESS,
}: z.infer<z.ZodMiniObject<typeof consoleKeys>>): ConsoleConfiguration | undefined {
  if (!CONSOLE_TOKENS && !CONSOLE_ACCESS) return undefined;
  return { tokens: CONSOLE_TOKENS ?? [], access: CONSOLE_ACCESS };
}
