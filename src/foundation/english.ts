import { en } from "zod/locales";
import type * as z from "zod/mini";

const { localeError } = en();

/** The messages of zod errors, which an operator reads: zod/mini has none of its own. */
export const inEnglish: z.core.ParseContext<z.core.$ZodIssue> = {
  error: (issue) => {
    const said = localeError(issue);
    const message = typeof said === "object" ? said?.message : said;
    return message === undefined ? undefined : plain(message);
  },
};

/** Words an error as a rule for the value. zod's own words describe the input as its parser sees it. */
function plain(message: string): string {
  return message
    .replace(/^Invalid (?:input|option): expected (.*), received (.*)$/, "must be $1, not $2")
    .replace(/^Invalid (?:input|option): expected /, "must be ")
    .replace(/^Too (?:small|big): expected \w+ to /, "must ")
    .replace(/^Invalid input$/, "has a form that is not known")
    .replace(/^must (.*?)>=(\S+)/, "must $1at least $2")
    .replace(/^must (.*?)<=(\S+)/, "must $1at most $2")
    .replace(/^must (.*?)>(\S+)/, "must $1more than $2")
    .replace(/^must (.*?)<(\S+)/, "must $1less than $2");
}
