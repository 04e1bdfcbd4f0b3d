import type * as z from "zod/mini";
import { parsedText } from "../src/foundation/text.ts";

/** A text as the JSON value that it holds. */
export const JsonText: z.ZodMiniType<unknown, string> = parsedText(parseJson, "must be JSON");

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
