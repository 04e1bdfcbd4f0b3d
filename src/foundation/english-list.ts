import { en } from "zod/locales";
import type * as z from "zod/mini";

/** For a parse whose faults somebody reads: by themselves, schemas have no words for what is wrong. */
export const inEnglish: z.core.ParseContext<z.core.$ZodIssue> = { error: en().localeError };
