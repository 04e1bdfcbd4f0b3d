import * as z from "zod/mini";
import { type Denial, deniedForms, toDenial } from "../ca/denial.ts";
import type { DenialContent } from "../custody/denial-statement.ts";
import { jsonText } from "../foundation/text/json-text.ts";
import { refuse } from "../foundation/text/parsed-text.ts";
import { instant, tableOrText } from "./text-forms.ts";

const entry = tableOrText(
  "subject",
  z.strictObject({
    subject: z.string(),
    since: z.optional(instant),
    until: z.optional(instant),
    why: z.optional(z.string().check(z.maxLength(200))),
  }),
);

const denial = z.pipe(
  entry,
  z.transform(({ subject, since, until, why }, context): Denial => {
    // An instant counts only for what tokens alone show, and is required there.
    const found = toDenial({ subject, knownFrom: since ?? new Date(0), until, why });
    if (!found) return refuse(context, `subject must be ${deniedForms}`);
    if (!found.isShownByTokens || since !== undefined) return found;
    return refuse(context, "since is required for a node, a pod and a token");
  }),
);

/** `DENIED`: a list of subjects and tables, or the same as JSON in a text. */
export const deniedTable: z.ZodMiniType<readonly Denial[]> = z.pipe(
  jsonText,
  z.array(denial).check(z.maxLength(100)),
);

/** The entry of `DENIED` that states a denial, in TOML. */
export function formatDenied(denial: DenialContent): string {
  const { subject, knownFrom, until, why } = denial;
  const members = [
    `subject = ${JSON.stringify(subject)}`,
    ...(toDenial(denial)?.isShownByTokens ? [`since = "${knownFrom.toISOString()}"`] : []),
    ...(until ? [`until = "${until.toISOString()}"`] : []),
    ...(why === undefined ? [] : [`why = ${JSON.stringify(why)}`]),
  ];
  return `{ ${members.join(", ")} }`;
}
