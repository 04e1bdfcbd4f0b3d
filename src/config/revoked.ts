import * as z from "zod/mini";
import { isSerialNumber, type RevocationContent } from "../custody/revocation-statement.ts";
import { jsonText } from "../foundation/text/json-text.ts";
import {
  mayBeSerialNumber,
  serialContent,
  shownSerialNumber,
} from "../pki/encoding/serial-number.ts";
import { type RevocationReason, reasonCodes } from "../pki/x509/crl/crl-to-be-signed.ts";
import { wholeSeconds } from "../pki/x509/validity.ts";
import { instant } from "./text-forms.ts";

const serial = z.pipe(
  z
    .string()
    .check(
      z.refine(
        (text) => mayBeSerialNumber(text) && isSerialNumber(serialContent(text)),
        "must be a serial number as `certificate revoked` shows it",
      ),
    ),
  z.transform(serialContent),
);

const reasons = Object.keys(reasonCodes) as [RevocationReason, ...RevocationReason[]];

const table = z.strictObject({
  authority: z.string().check(z.regex(/^[0-9a-f]{40}$/, "must be the id of an authority")),
  serials: z.array(serial).check(z.minLength(1), z.maxLength(100)),
  since: instant,
  until: instant,
  reason: z._default(z.enum(reasons), "unspecified"),
  why: z.optional(z.string().check(z.maxLength(200))),
});

const revocation = z.pipe(
  table,
  z.transform(({ authority, serials, since, until, reason, why }): RevocationContent => {
    const end = Math.ceil(until.getTime() / 1000);
    const revokedAt = wholeSeconds(since);
    return {
      authority,
      revokedAt,
      knownFrom: revokedAt,
      reason,
      ...(why !== undefined && { why }),
      certificates: new Map(serials.map((each) => [each, end])),
    };
  }),
);

/** `REVOKED`: a list of tables, or the same as JSON in a text. */
export const revokedTable: z.ZodMiniType<readonly RevocationContent[]> = z.pipe(
  jsonText,
  z.array(revocation).check(z.maxLength(100)),
);

/** The entry of `REVOKED` that states a revocation, in TOML. */
export function formatRevoked(content: RevocationContent): string {
  const { authority, certificates, revokedAt, reason, why } = content;
  const end = new Date(1000 * Math.max(...certificates.values()));
  const serials = [...certificates.keys()].map((each) => `"${shownSerialNumber(each)}"`).join(", ");
  const members = [
    `authority = ${JSON.stringify(authority)}`,
    `serials = [${serials}]`,
    `since = "${wholeInstant(revokedAt)}"`,
    `until = "${wholeInstant(end)}"`,
    ...(reason === "unspecified" ? [] : [`reason = "${reason}"`]),
    ...(why === undefined ? [] : [`why = ${JSON.stringify(why)}`]),
  ];
  return `{ ${members.join(", ")} }`;
}

const wholeInstant = (instant: Date): string => instant.toISOString().replace(".000Z", "Z");
