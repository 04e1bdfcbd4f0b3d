import * as z from "zod/mini";
import { type Denial, deniedForms, toDenial } from "../ca/denial.ts";
import type { DenialContent } from "../custody/denial-statement.ts";
import { jsonText } from "../foundation/text/json-text.ts";

const instant = z.iso.datetime("must be an instant, such as 2027-01-31T12:00:00Z");

const table = z.strictObject({
  subject: z.string(),
  since: z.optional(instant),
  until: z.optional(instant),
  why: z.optional(z.string().check(z.maxLength(200))),
});

/** A subject alone stands for a table with only that subject. TOML has instants of its own. */
const entry = z.pipe(
  z.transform((value: unknown) =>
    typeof value === "string" ? { subject: value } : withText(value),
  ),
  table,
);

function withText(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(
    entries.map(([key, each]) => [key, each instanceof Date ? each.toISOString() : each]),
  );
}

const denial = z.pipe(
  entry,
  z.transform(({ subject, since, until, why }, context): Denial => {
    const found = toDenial({
      subject,
      // It counts only for what tokens alone show, and is required there.
      knownFrom: new Date(since ?? 0),
      ...(until !== undefined && { until: new Date(until) }),
      ...(why !== undefined && { why }),
    });
    if (!found) return refuse(context, subject, `subject must be ${deniedForms}`);
    if (!found.isShownByTokens || since !== undefined) return found;
    return refuse(context, subject, "since is required for a node, a pod and a token");
  }),
);

function refuse(context: z.core.ParsePayload, input: unknown, message: string): never {
  context.issues.push({ code: "custom", input, message });
  return z.NEVER;
}

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
