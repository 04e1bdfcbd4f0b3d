import { en } from "zod/locales";
import type * as z from "zod/mini";

/** For parses whose faults an operator reads: zod/mini has no messages of its own. */
export const inEnglish: z.core.ParseContext<z.core.$ZodIssue> = { error: en().localeError };
